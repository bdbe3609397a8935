"""Refuses what no model is made of, by the name of the file and the reason: by its name, and by its first bytes."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from edge_runtime.models.errors import ContentRefused

_PICKLE = frozenset({".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".npz", ".h5", ".keras"})
_CODE = frozenset({".py", ".so", ".dll", ".dylib", ".exe", ".sh"})
_HTML = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_LFS = b"version https://git-lfs"
_BLOCK = 1 << 20


def require_safe_name(name: str) -> str:
    """Return the path of a file in a listing, if it stays inside the folder and may be one of a model's.

    Raises:
        ContentRefused: It leads outside, is a pickle, or is code.
    """
    path = PurePosixPath(name)
    plain = name and "\\" not in name and "\0" not in name and ":" not in name and name.isprintable()
    if not plain or path.is_absolute() or ".." in path.parts or path.as_posix() != name or len(name) > 255:
        raise ContentRefused(f"The file {name!r} is refused: its name leads outside the model's folder.")
    suffix = path.suffix.lower()
    if suffix in _PICKLE:
        raise ContentRefused(
            f"The file {name} is refused: {suffix} files can hold pickles, which run code when they are loaded. "
            "Take a model in safetensors, GGUF or ONNX."
        )
    if suffix in _CODE:
        raise ContentRefused(f"The file {name} is refused: it is code, and a model is data.")
    return name


def require_content(path: Path, name: str) -> None:
    """Look at what was fetched: a failed download is often a file all the same.

    Raises:
        ContentRefused: It is empty, zeros, a web page, a pointer of git-lfs, or not of the format that its name says.
    """
    if path.is_symlink() or not path.is_file():
        raise ContentRefused(f"{name} is refused: it is a link or no file.")
    with path.open("rb") as file:
        head = file.read(4096)
    if not head:
        raise ContentRefused(f"{name} is refused: it is empty.")
    if head.startswith(_LFS):
        raise ContentRefused(f"{name} is a pointer of git-lfs, and not the file itself. Fetch it with `git lfs pull`.")
    if _HTML.match(head):
        raise ContentRefused(
            f"{name} is a web page, and not the file: something between here and there answered in its place, such as "
            "the login page of a network."
        )
    if not any(head) and _is_zeros(path):
        raise ContentRefused(f"{name} is nothing but zeros: its download or its disk lost the content.")
    _require_format(path, name, head)


def _require_format(path: Path, name: str, head: bytes) -> None:
    suffix, size = PurePosixPath(name).suffix, path.stat().st_size
    if suffix == ".gguf" and not head.startswith(b"GGUF"):
        raise ContentRefused(f"{name} is no GGUF file: it does not begin as one.")
    if suffix == ".json" and head.lstrip()[:1] not in {b"{", b"["}:
        raise ContentRefused(f"{name} is no JSON file.")
    if suffix == ".onnx" and head[0] != 0x08:  # the field `ir_version`, which every writer puts first
        raise ContentRefused(f"{name} is no ONNX graph: it does not begin as one.")
    if suffix == ".safetensors":
        header = int.from_bytes(head[:8], "little")
        if size < 8 or header > size - 8 or head[8:9] != b"{":
            raise ContentRefused(f"{name} is no safetensors file, or was cut short.")


def _is_zeros(path: Path) -> bool:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            if any(block):
                return False
    return True
