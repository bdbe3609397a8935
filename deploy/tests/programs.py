"""The programs that checks call: those of the extra `deploy` lie beside Python, the others are Debian packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = {
    "ip": "iproute2",
    "openssl": "openssl",
    "promtool": "prometheus",
    "systemd-analyze": "systemd",
    "systemd-sysusers": "systemd",
    "systemd-tmpfiles": "systemd",
    "unshare": "util-linux",
}


def program(name: str) -> str:
    """Return where a program is; one that is missing fails the check, since what nobody looked at is not right.

    `TIDEGATE_WITHOUT_PACKAGES` names Debian's packages that cannot be had: then the check is skipped, and says so.
    """
    beside_python = Path(sys.executable).with_name(name)
    found = str(beside_python) if beside_python.is_file() else shutil.which(name)
    if found is None:
        package = PACKAGES.get(name)
        if package in os.environ.get("TIDEGATE_WITHOUT_PACKAGES", "").split():
            pytest.skip(f"{name} is missing, and {package} cannot be had here")
        pytest.fail(f"{name} is missing: " + (f"apt-get install {package}" if package else "make deploy-check"))
    return found


def run(name: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program to its end, and return what it said."""
    return subprocess.run(
        [program(name), *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=100
    )
