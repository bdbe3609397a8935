"""The secret of this installation, and the keys derived from it: one for each purpose and tenant.

It is made on first use and kept in the state folder, so that workers share it and it outlives restarts. Whoever copies
the folder can recognise pseudonyms and conversations made with it, so it belongs in no backup that leaves the machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

_KEY_BYTES = 32
_FILE_NAME = "installation.key"


class Purpose(StrEnum):
    """What a derived key is for. Keys of different purposes tell nothing of each other."""

    CACHE_SALT = "cache-salt"
    PSEUDONYM = "pseudonym"
    TAINT = "taint"
    CANARY = "canary"
    KEPT = "kept"


class Keys:
    """Derives keys from the installation's secret."""

    def __init__(self, secret: bytes) -> None:
        """Derive from this secret."""
        self._secret = secret

    def derive(self, purpose: Purpose, tenant: str = "") -> bytes:
        """Return the key of a purpose, a tenant's own where one is named."""
        return mac(self._secret, purpose.value.encode(), tenant.encode())


def load_keys(directory: Path, *, before_the_first: Callable[[], None] = lambda: None) -> Keys:
    """Read the installation's secret, or make it where there is none yet.

    Args:
        directory: Made with mode 0700 if it is missing; the file has 0600.
        before_the_first: Makes what a new installation has beside the secret. Once there is a secret, all of that is
            expected to be there.

    Raises:
        ValueError: There is one and it cannot be used. It is never replaced: what was kept under it would be lost.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / _FILE_NAME
    try:
        if not path.exists():
            before_the_first()
            _make(path)
        secret = path.read_bytes()
    except OSError as exc:
        raise ValueError(f"the installation's key in the state folder cannot be used: {exc.strerror}") from None
    if len(secret) != _KEY_BYTES:
        raise ValueError(f"the installation's key in the state folder is damaged: it must have {_KEY_BYTES} bytes")
    return Keys(secret)


def mac(key: bytes, *parts: bytes) -> bytes:
    """HMAC-SHA256 over parts, each preceded by its length, so that no two lists of parts give the same bytes."""
    digest = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def _make(path: Path) -> None:
    """Write a new secret aside and link it into place: a worker that starts at the same moment finds one, whole."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
    finally:
        aside.unlink()
