"""The keys that vouch for models: those that are trusted here, and the one that this machine signs with itself.

    keys/models/
      <name>.pub        trusted: an Ed25519 public key in base64
      this-box.pem      this machine's own private key, made when it is first needed; `this-box.pub` is its public half

What is built or imported here is signed with the machine's own key, so that it is trusted here and nowhere else.
"""

from __future__ import annotations

import fcntl
from pathlib import Path

from edge_runtime.models.errors import KeyRefused
from edge_runtime.models.names import is_model_name
from observability.disk import sync, write_whole
from runtime_server.model_signature import KEY_SUFFIX
from serving.signatures import KeyUnusable, PrivateKey, PublicKey

OWN_NAME = "this-box"


def own_key(folder: Path) -> PrivateKey:
    """Return this machine's key; where there is none, or it is trusted no more, one is made, and trusted.

    Raises:
        KeyUnusable: What stands there is no such key, or others may read it.
    """
    path = folder / f"{OWN_NAME}.pem"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (path.exists() and (folder / (OWN_NAME + KEY_SUFFIX)).exists()):
            key = PrivateKey.make()
            part = folder / f".{path.name}.part"
            part.unlink(missing_ok=True)
            key.save(part)
            sync(part)
            _write(folder / (OWN_NAME + KEY_SUFFIX), key.public)
            part.replace(path)  # last: with it the pair is complete
            sync(folder)
    return read_key(path)


def read_key(path: Path) -> PrivateKey:
    """Return the private key in a file.

    Raises:
        KeyUnusable: It cannot be read, or others than its owner can read or change it.
    """
    key = PrivateKey.load(path)
    if path.stat().st_mode & 0o077:
        raise KeyUnusable(
            "others than its owner can read or change the private key: end that with `chmod 600`, and make a new key "
            "where somebody may have done so"
        )
    return key


def trust(folder: Path, name: str, key: PublicKey) -> None:
    """Trust a public key under a name.

    Raises:
        KeyRefused: The name cannot be one, or is taken by another key.
    """
    if not is_model_name(name):
        raise KeyRefused(f"`{name}` cannot be a key's name: lower-case letters, digits, `.`, `_` and `-`.")
    path = folder / (name + KEY_SUFFIX)
    if path.exists():
        raise KeyRefused(f"There is a trusted key `{name}` already. Choose another name, or remove that one.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(path, key)


def distrust(folder: Path, name: str) -> None:
    """Trust a key no longer; what only it vouched for is not loaded again.

    After this machine's own, a new one is made when one is needed: nobody would trust what the old one signs.

    Raises:
        KeyRefused: There is no such key.
    """
    path = folder / (name + KEY_SUFFIX)
    if not is_model_name(name) or not path.is_file():
        raise KeyRefused(f"There is no trusted key `{name}`. `tidegate models keys list` says which there are.")
    path.unlink()
    sync(folder)


def _write(path: Path, key: PublicKey) -> None:
    write_whole(path, f"{key.text}\n".encode())
