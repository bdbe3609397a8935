"""`pull`: from a source to a version in the store: fetched, checked, imported where need be, signed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants, get_token
from rich.console import Console

from edge_runtime.models.errors import SourceInvalid
from edge_runtime.models.fetching import Fetched, Fetcher
from edge_runtime.models.importing import import_fetched
from edge_runtime.models.keys import own_key
from edge_runtime.models.names import is_model_name
from edge_runtime.models.origin import write_origin
from edge_runtime.models.sources.connections import open_client
from edge_runtime.models.sources.download import Downloader
from edge_runtime.models.sources.hub import Hub
from edge_runtime.models.sources.meter import Meter
from edge_runtime.models.sources.parse import HubSource, LocalSource, Source, parse_source
from edge_runtime.models.staging import Staging, staging
from edge_runtime.models.store import ModelStore
from edge_runtime.models.version import Version
from runtime_server import model_manifest
from runtime_server.model_signature import Untrusted, sign

DOWNLOADS = ".downloads"
_KEPT_S = 7 * 86400.0
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class PullOptions:
    """What a person asks for.

    Attributes:
        source: As `sources.parse` reads it.
        name: The model's name; without it, the manifest's or the file's own.
        sha256: Of the file, or of a packaged model's manifest: whoever gives it vouches for that content.
        hub: Base address of the model hub; without it, the one that the machine is set up for.
        precision: Of a Hugging Face folder's weights; int8 if nothing is said.
        force: Let an imported model in even if it answers too differently from what it was made from.
        activate: Serve it from the next load on.
    """

    source: str
    name: str | None = None
    sha256: str | None = None
    hub: str | None = None
    precision: str | None = None
    force: bool = False
    activate: bool = True


def pull_model(store: ModelStore, options: PullOptions, console: Console) -> Version:
    """Fetch a model into the store.

    Raises:
        StoreError: The message names the way on.
        Untrusted: It is to be activated, and nobody who is trusted vouches for it.
        ModelDamaged: A manifest cannot be read as one.
    """
    source = parse_source(options.source)
    if options.name is not None and not is_model_name(options.name):
        raise SourceInvalid(f"`{options.name}` cannot be a model's name: lower-case letters, digits, `.`, `_` and `-`.")
    if options.sha256 is not None and not _SHA256.fullmatch(options.sha256):
        raise SourceInvalid("--sha256 takes 64 hexadecimal digits in lower case.")
    vouched = options.sha256 is not None or isinstance(source, LocalSource) or _is_commit(source)
    with staging(store.root, when_busy=lambda: console.print("Another build is running here; waiting for it.")) as work:
        downloads = _downloads(store.root, options.source)
        meter = Meter(console)
        with open_client() as client, meter.shown():
            hub = Hub(client, options.hub or constants.ENDPOINT, _token(options))
            look = _Admission(store, options, vouched)
            fetcher = Fetcher(work, downloads, client, meter, Downloader(client, meter), hub, options.sha256, look)
            fetched = fetcher.fetch(source)
        version = _publish(store, work, options, fetched, vouched, console)
        shutil.rmtree(downloads, ignore_errors=True)
        with contextlib.suppress(OSError):  # it is not there, or holds what other pulls will go on with
            downloads.parent.rmdir()
    return store.activate(version) if options.activate else version


def _publish(
    store: ModelStore, work: Staging, options: PullOptions, fetched: Fetched, vouched: bool, console: Console
) -> Version:
    folder, name = fetched.path, options.name
    if not fetched.packaged:
        folder = import_fetched(work, fetched.path, name, console, precision=options.precision, force=options.force)
    elif options.precision is not None:
        raise SourceInvalid("--precision is for a Hugging Face folder; this model is packed, and taken as it is.")
    write_origin(folder, {"pulled": options.source, **fetched.origin})
    if vouched and (not fetched.packaged or options.sha256 is not None):
        sign(folder, own_key(store.keys))
    return store.publish(folder, name)


@dataclass(frozen=True, slots=True)
class _Admission:
    """Says before the large files are fetched whether what comes may be activated."""

    store: ModelStore
    options: PullOptions
    vouched: bool

    def packaged(self, folder: Path) -> None:
        """Look at the manifest and its signatures."""
        pinned = self.options.sha256
        if pinned is not None and model_manifest.manifest_id(folder) != pinned:
            raise Untrusted(f"The manifest has the sha256 {model_manifest.manifest_id(folder)}, and not {pinned}.")
        if self.options.activate and pinned is None:
            self.store.vouchers(Version("", model_manifest.manifest_id(folder), folder, active=False))

    def bare(self) -> None:
        """Look at whether somebody says which content a file without a manifest must have."""
        if self.options.activate and not self.vouched and not self.store.dev:
            raise Untrusted(
                f"Nobody vouches for what {self.options.source} holds. Say which content you mean, with --sha256 or, "
                "for a hub, with the commit as the revision; or pull it with --no-activate, look at it, and "
                "`tidegate models sign` it; or set `models.signatures: dev` where anything may run."
            )


def _token(options: PullOptions) -> str | None:
    """Return the token of the machine's own hub, or what was set for whichever is asked."""
    return os.environ.get("HF_TOKEN") or (get_token() if options.hub is None else None)


def _is_commit(source: Source) -> bool:
    return isinstance(source, HubSource) and _COMMIT.fullmatch(source.revision) is not None


def _downloads(root: Path, source: str) -> Path:
    """Return where this source's parts are kept, and remove those that nobody has come back for in a week."""
    folder = root / DOWNLOADS
    oldest_s = time.time() - _KEPT_S
    for kept in folder.iterdir() if folder.is_dir() else ():
        if kept.stat().st_mtime < oldest_s:
            shutil.rmtree(kept, ignore_errors=True)
    own = folder / hashlib.sha256(source.encode()).hexdigest()[:16]
    if own.exists():
        os.utime(own)
    return own
