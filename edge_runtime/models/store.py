"""The store: publishes, activates, rolls back, removes. What it looks like on the disk says the package's docstring.

Whatever changes the store holds one short lock. Every change is one rename at its heart, so a process that is killed,
or a disk that is full, leaves either what was or what is to be; what else it leaves behind is swept by the next change.
Reading takes no lock.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from edge_runtime.models.errors import InUse, NoSuchModel, NothingToRollBack
from edge_runtime.models.names import is_model_name, split_reference
from edge_runtime.models.switch import VERSIONS, Switch
from edge_runtime.models.version import Version
from observability.disk import sync
from runtime_server import model_manifest, model_signature
from runtime_server.model_lease import ModelLease, lock_manifest, take_lease
from runtime_server.model_manifest import FILE_NAME
from runtime_server.trusted_keys import TrustedKeys
from serving.signatures import PrivateKey

_TRASH = ".trash"


class ModelStore:
    """The models in one folder."""

    def __init__(self, root: Path, *, dev: bool = False, trusted: tuple[str, ...] = ()) -> None:
        """Look after `root`, which is made when something is published.

        Args:
            root: The folder of models. The keys that are trusted stand beside it, in `keys/models`.
            dev: Let unsigned versions be activated.
            trusted: Further keys, each as `NAME=KEY` with the key in base64.
        """
        self.root = root
        self.keys = root.parent / "keys" / "models"
        self.trusted = TrustedKeys(self.keys, trusted)
        self.dev = dev

    def names(self) -> list[str]:
        """Return the models that have a version."""
        found = {path.name for path in _entries(self.root) if (path / FILE_NAME).is_file()}
        found |= {path.name for path in _entries(self.root / VERSIONS) if any(p.is_dir() for p in _entries(path))}
        return sorted(name for name in found if is_model_name(name))

    def versions(self, name: str) -> list[Version]:
        """Return a model's versions, oldest first."""
        switch = self._switch(name)
        folders = [path for path in _entries(switch.versions) if path.is_dir() and not path.is_symlink()]
        folders.sort(key=lambda folder: (_written_ns(folder), folder.name))
        active = switch.active()
        found = [Version(name, folder.name, folder, folder.name == active) for folder in folders]
        if _is_unadopted(switch.link):
            found.append(Version(name, model_manifest.manifest_id(switch.link), switch.link, active=True))
        return found

    def active(self, name: str) -> Version | None:
        """Return the version that a model's name stands for."""
        return next((version for version in self.versions(name) if version.active), None)

    def find(self, reference: str) -> Version:
        """Return the version that `name@beginning-of-id` names; without `@`, the active one.

        Raises:
            NoSuchModel: There is none, or the beginning fits several.
        """
        name, prefix = split_reference(reference)
        versions = self.versions(name)
        found = [v for v in versions if (v.active if prefix is None else v.id.startswith(prefix))]
        if len(found) == 1:
            return found[0]
        if not versions:
            raise NoSuchModel(f"There is no model `{name}`. `tidegate models list` says which there are.")
        why = "has no active version" if prefix is None else f"has {len(found) or 'no'} versions that begin so"
        raise NoSuchModel(f"`{reference}` {why}. There are: {', '.join(v.reference for v in versions)}.")

    def vouchers(self, version: Version) -> list[str]:
        """Return the names of the trusted keys that signed a version; there may be none where anything may run.

        Raises:
            ModelMissing: It is gone.
            Untrusted: Nobody who is trusted signed it.
        """
        if self.dev:
            return model_signature.signers(version.folder, model_signature.read_keys(self.trusted))
        return model_signature.require_signed(version.folder, self.trusted)

    def sign(self, version: Version, key: PrivateKey) -> None:
        """Add a signature to a version, once every file of it was read.

        Raises:
            ModelMissing: It is gone.
            ModelDamaged: A file is not what the manifest says.
            Untrusted: The signatures that are there cannot be read.
        """
        version.verify()
        with self._changing():
            model_signature.sign(version.folder, key)

    def publish(self, staged: Path, name: str | None = None) -> Version:
        """Make a version of a complete folder on the same file system; nothing is served by that alone.

        The folder is moved. Where this very version stands already, its signatures are renewed by those of the folder,
        and so is each file of it that was damaged.

        Args:
            staged: The folder, with its manifest, written to the disk by `model_manifest.write_manifest`.
            name: The model's name, if not the manifest's.

        Raises:
            ModelMissing: The folder has no manifest.
            ModelDamaged: The manifest cannot be read.
        """
        name = name or model_manifest.read_manifest(staged).name
        switch = self._switch(name)
        id_ = model_manifest.manifest_id(staged)
        place = switch.versions / id_
        with self._changing():
            self._adopt(switch)
            switch.versions.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync(staged)
            if place.exists():
                self._renew(staged, place)
            else:
                staged.rename(place)
                sync(switch.versions)
        return Version(name, id_, place, id_ == switch.active())

    def activate(self, version: Version) -> Version:
        """Let the model's name stand for this version; whoever serves another goes on with it.

        Raises:
            ModelDamaged: A file is not what the manifest says.
            ModelMissing: The version is gone.
            Untrusted: Nobody who is trusted signed it.
        """
        version.verify()
        self.vouchers(version)
        switch = self._switch(version.model)
        with self._changing():
            self._adopt(switch)
            before = switch.active()
            if before not in {None, version.id}:
                switch.remember([id_ for id_ in switch.earlier() if id_ != version.id] + [str(before)])
            self._throw(switch, version.id)
        return Version(version.model, version.id, switch.versions / version.id, active=True)

    def rollback(self, name: str) -> Version:
        """Go back to the version that was active before, and return it.

        Raises:
            NothingToRollBack: There is none, or it was removed.
            ModelDamaged: A file of it is not what its manifest says.
            Untrusted: Nobody who is trusted signed it.
        """
        switch = self._switch(name)
        standing = {version.id: version for version in self.versions(name)}
        earlier = [id_ for id_ in switch.earlier() if id_ in standing and not standing[id_].active]
        if not earlier:
            raise NothingToRollBack(f"No earlier version of `{name}` is left to go back to.")
        version = standing[earlier[-1]]
        version.verify()
        self.vouchers(version)
        with self._changing():
            self._throw(switch, version.id)
            switch.remember(earlier[:-1])
        return Version(name, version.id, version.folder, active=True)

    def remove(self, version: Version) -> None:
        """Remove a version that nobody uses.

        Raises:
            InUse: It is active, or a process holds it.
        """
        if version.active:
            raise InUse(
                f"{version.reference} is active. Activate another version first, or remove the whole model: "
                f"`tidegate models remove {version.model} --all`."
            )
        self._throw_away([version], [version.folder])

    def remove_all(self, name: str) -> None:
        """Remove a model with all its versions, if nobody uses one.

        Raises:
            NoSuchModel: There is no such model.
            InUse: A process holds a version.
        """
        versions = self.versions(name)
        if not versions:
            raise NoSuchModel(f"There is no model `{name}`. `tidegate models list` says which there are.")
        switch = self._switch(name)
        self._throw_away(versions, [switch.link, switch.versions])

    def lease(self, name: str) -> ModelLease:
        """Hold a model's active version: its folder stays as long as the lease, or the process, lasts.

        Raises:
            ModelMissing: It has none.
        """
        return take_lease(self._switch(name).link)

    def adopt(self, name: str) -> Version | None:
        """Move a folder that stands under the model's name itself into the store; it stays active.

        Folders stood there before there were versions. Returns the model's active version, if it has one.
        """
        if _is_unadopted(self._switch(name).link):
            with self._changing():
                self._adopt(self._switch(name))
        return self.active(name)

    def sweep(self) -> None:
        """Remove what killed processes left behind. Every change does it too."""
        if self.root.is_dir():
            with self._changing():
                pass

    def _switch(self, name: str) -> Switch:
        if not is_model_name(name):
            raise NoSuchModel(f"`{name}` cannot be a model's name.")
        return Switch(self.root, name)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        versions = self.root / VERSIONS
        versions.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (versions / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _delete(self.root / _TRASH)
            for folder in _entries(versions):
                if folder.is_dir():
                    Switch(self.root, folder.name).repair()
            yield

    def _throw(self, switch: Switch, id_: str) -> None:
        if not (switch.versions / id_ / FILE_NAME).is_file():
            raise NoSuchModel(f"{switch.model}@{id_[:12]} was removed in the meantime.")
        switch.prepare(id_)
        if switch.link.is_dir() and not switch.link.is_symlink():  # a folder that was never completed
            switch.link.rename(self._new_trash())
        switch.throw()

    def _adopt(self, switch: Switch) -> None:
        """Put the link in the place of a folder.

        Where the file system cannot exchange them, it takes two renames, and a process that is killed between these is
        made up for by the next change.
        """
        if not _is_unadopted(switch.link):
            return
        id_ = model_manifest.manifest_id(switch.link)
        switch.versions.mkdir(mode=0o700, parents=True, exist_ok=True)
        if switch.adopt(id_):
            return
        switch.prepare(id_)
        switch.link.rename(self._new_trash() if (switch.versions / id_).exists() else switch.versions / id_)
        sync(switch.versions)
        switch.throw()

    def _throw_away(self, versions: list[Version], paths: list[Path]) -> None:
        """Remove the paths, which hold those versions, once nobody else holds one of these."""
        with self._changing(), ExitStack() as locks:
            for version in versions:
                descriptor = lock_manifest(version.folder, fcntl.LOCK_EX)
                if descriptor is not None:
                    locks.callback(os.close, descriptor)
                elif (version.folder / FILE_NAME).exists():
                    raise InUse(f"{version.reference} is in use by a running process. Stop it, or activate another.")
            for path in paths:
                if path.is_symlink() or path.exists():
                    path.rename(self._new_trash())
                    sync(path.parent)
            _delete(self.root / _TRASH)

    def _renew(self, staged: Path, place: Path) -> None:
        """Put what is signed anew, or damaged, in its place, each file by one rename: who maps the old one keeps it."""
        listed, found = model_manifest.read_manifest(staged).files, model_manifest.hash_folder(place)
        for name in found.keys() - listed.keys():
            (place / name).unlink()
        renewed = [name for name, digest in listed.items() if found.get(name) != digest]
        if not (place / FILE_NAME).is_file() or model_manifest.manifest_id(place) != place.name:
            renewed.append(FILE_NAME)
        if (staged / model_manifest.SIGNATURES_NAME).exists():
            renewed.append(model_manifest.SIGNATURES_NAME)
        for name in renewed:
            (place / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (staged / name).replace(place / name)
            sync((place / name).parent)

    def _new_trash(self) -> Path:
        trash = self.root / _TRASH
        trash.mkdir(mode=0o700, exist_ok=True)
        return trash / secrets.token_hex(8)


def _delete(folder: Path) -> None:
    """Remove a folder; what cannot be removed now is left to the next change."""
    shutil.rmtree(folder, ignore_errors=True)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _written_ns(folder: Path) -> int:
    try:
        return (folder / FILE_NAME).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _is_unadopted(link: Path) -> bool:
    """Whether a folder, and no link, stands under a model's name."""
    return not link.is_symlink() and (link / FILE_NAME).is_file()
