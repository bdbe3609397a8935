"""The tensors of a folder of safetensors files, in one or in several, each of which must be asked for.

Pickled weights are refused: unpickling runs whatever code they hold.
Format: https://huggingface.co/docs/safetensors/index.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.blocks import Floats
from edge_runtime.build.lost_content import require_filled, require_numbers

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_INDEX = "model.safetensors.index.json"
_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor lies."""

    file: Path
    kind: str
    shape: tuple[int, ...]
    offset: int

    def read(self) -> Floats:
        """Read the values, as float32."""
        count = math.prod(self.shape)
        raw = np.fromfile(self.file, np.uint8, count * _BYTES[self.kind], offset=self.offset)
        if self.kind == "BF16":  # the upper half of a float32
            values = (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = raw.view(np.float32 if self.kind == "F32" else np.float16).astype(np.float32, copy=False)
        return values.reshape(self.shape)


class SafetensorsFolder:
    """An open folder. Nothing but the files' headers is read until a tensor is asked for."""

    def __init__(self, folder: Path, single: str = "model.safetensors") -> None:
        """Find every tensor.

        Args:
            folder: Where the files lie.
            single: Name of the file where there is only one.

        Raises:
            NotImportable: There are none, or one of them is damaged, missing or holds numbers of another type.
        """
        self._folder = folder
        self._places = {name: place for file in _files(folder, single) for name, place in _read_header(file)}
        self._unread = set(self._places)

    def __contains__(self, name: object) -> bool:
        """Whether there is a tensor of that name."""
        return name in self._places

    def find(self, name: str, *shape: int) -> Floats | None:
        """Return a tensor in float32, or nothing where it is missing.

        Raises:
            NotImportable: It has another shape.
        """
        place = self._places.get(name)
        if place is None:
            return None
        self._unread.discard(name)
        if place.shape != shape:
            raise NotImportable(
                f"{place.file.name}: the tensor `{name}` is {list(place.shape)} where {list(shape)} is expected."
            )
        return place.read()

    def tensor(self, name: str, *shape: int) -> Floats:
        """Return a tensor in float32.

        Raises:
            NotImportable: It is missing, or has another shape.
        """
        found = self.find(name, *shape)
        if found is None:
            raise NotImportable(f"{self._folder} lacks the tensor `{name}`.")
        return found

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor that is there."""
        return self._places[name].shape

    def ignore(self, name: str) -> None:
        """Count a tensor as read: it says nothing that the others do not say."""
        self._unread.discard(name)

    def require_whole(self, vocabulary: object) -> None:
        """Look at every tensor, for a reader that would not.

        Args:
            vocabulary: Rows of an embedding, some of which may be for no token.

        Raises:
            NotImportable: One holds a hole of zeros, or what is no number; it is named.
        """
        for name, place in self._places.items():
            values = place.read()
            require_numbers(name, values)
            if values.ndim > 1:  # a vector may be a bias, or a factor beside one
                require_filled(name, values, empty_rows=len(values) == vocabulary)

    def unread(self) -> list[str]:
        """Return the tensors that nobody asked for."""
        return sorted(self._unread)


def weight_files(folder: Path) -> list[Path]:
    """Return the files that hold a model's weights.

    Raises:
        NotImportable: There are none that may be read.
    """
    return _files(folder, "model.safetensors")


def _files(folder: Path, single: str) -> list[Path]:
    if (folder / _INDEX).is_file():
        try:
            names = sorted(set(json.loads((folder / _INDEX).read_bytes())["weight_map"].values()))
        except (ValueError, KeyError, AttributeError, TypeError):
            raise NotImportable(f"{folder / _INDEX} is no index of safetensors files.") from None
        for name in names:
            if not isinstance(name, str) or Path(name).name != name:
                raise NotImportable(f"{folder / _INDEX} names {name!r}, which is no file beside it.")
            if not (folder / name).is_file():
                raise NotImportable(f"{folder / name} is missing; {_INDEX} names it.")
        return [folder / name for name in names]
    if (folder / single).is_file():
        return [folder / single]
    pickled = next((path.name for pattern in _PICKLES for path in sorted(folder.glob(pattern))), None)
    if pickled is not None:
        raise NotImportable(
            f"{folder} holds pickled weights ({pickled}) and no {single}. Reading a pickle runs the code in it, so it "
            "is not read; fetch the model's safetensors files, or convert them where you trust them."
        )
    raise NotImportable(f"{folder} holds neither {single} nor {_INDEX}.")


def _read_header(file: Path) -> list[tuple[str, _Place]]:
    try:
        with safe_open(str(file), "np"):  # checks that the header is sound and covers the file exactly
            pass
    except (SafetensorError, OSError) as error:
        raise NotImportable(f"{file.name} is {_what_it_is(file)}: {error}.") from None
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(size))
    header.pop("__metadata__", None)
    found = []
    for name, entry in header.items():
        if entry["dtype"] not in _BYTES:
            known = ", ".join(_BYTES)
            raise NotImportable(
                f"{file.name}: the tensor `{name}` is {entry['dtype']}; {known} can be read. Weights that are "
                "quantized already are not quantized again: import the float model, or a GGUF file of it."
            )
        begin = 8 + size + entry["data_offsets"][0]
        found.append((name, _Place(file, entry["dtype"], tuple(entry["shape"]), begin)))
    return found


def _what_it_is(file: Path) -> str:
    with file.open("rb") as opened:
        begin = opened.read(64)
    if begin.startswith(b"version https://git-lfs"):
        return "a pointer of git-lfs in place of the file itself (run `git lfs pull`)"
    if begin.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page: the download was answered by a login or error page"
    return "cut short or damaged, fetch it again"
