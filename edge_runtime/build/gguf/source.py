"""A GGUF file as a mapping of keys and one of tensors, each of which must be asked for, or the file is refused.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. A key or tensor that nobody reads may change what the
model computes, so an import that left one aside would not be exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from gguf import GGMLQuantizationType
from numpy.typing import NDArray

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.reader import BoundedReader

_Scalar = TypeVar("_Scalar", int, float, str, bool)
_MAGIC = b"GGUF"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# What the reader raises on files that are cut short or scrambled; it has no errors of its own.
_READ_ERRORS = (ValueError, IndexError, KeyError, OverflowError, TypeError, MemoryError)


class Tensor:
    """One tensor. `shape` is NumPy's: rows first, the reverse of what the file writes."""

    def __init__(self, name: str, kind: GGMLQuantizationType, shape: tuple[int, ...], data: NDArray[Any]) -> None:
        """Take what the reader gives.

        Args:
            name: As in the file.
            kind: How the values are quantized.
            shape: Of the values.
            data: Bytes `[rows, bytes a row]` of blocks, or the values themselves for F32 and F16.
        """
        self.name = name
        self.kind = kind
        self.shape = shape
        self.data = data


class GgufSource:
    """An open file. Nothing but the metadata is read until a tensor's data is touched."""

    def __init__(self, path: Path) -> None:
        """Open a file.

        Raises:
            NotImportable: It is not a GGUF file, or not a whole one.
        """
        _check_beginning(path)
        try:
            reader = BoundedReader(path)
            reader.require_apart()
        except _READ_ERRORS as error:
            said = str(error).rstrip(".")
            raise NotImportable(f"{path.name} is cut short or damaged, fetch it again: {said}.") from None
        self._name = path.name
        self._fields = reader.fields
        self._tensors = {
            tensor.name: Tensor(
                tensor.name, tensor.tensor_type, tuple(int(size) for size in reversed(tensor.shape)), tensor.data
            )
            for tensor in reader.tensors
        }
        self._unread_tensors = set(self._tensors)
        self._unread_keys = set(self._fields)

    def require(self, key: str, kind: type[_Scalar]) -> _Scalar:
        """Return the value of a key.

        Raises:
            NotImportable: It is missing, or of another type.
        """
        value = self._value(key)
        if value is None:
            raise NotImportable(f"{self._name} lacks the key `{key}`.")
        return self._typed(key, value, kind)

    def get(self, key: str, default: _Scalar) -> _Scalar:
        """Return the value of a key, or `default` where it is missing.

        Raises:
            NotImportable: It is of another type.
        """
        value = self._value(key)
        return default if value is None else self._typed(key, value, type(default))

    def find(self, key: str, kind: type[_Scalar]) -> _Scalar | None:
        """Return the value of a key, or nothing where it is missing.

        Raises:
            NotImportable: It is of another type.
        """
        value = self._value(key)
        return None if value is None else self._typed(key, value, kind)

    def require_list(self, key: str, kind: type[_Scalar]) -> Sequence[_Scalar]:
        """Return the list under a key.

        Raises:
            NotImportable: It is missing, or no list of that type.
        """
        value = self._value(key)
        if value is None:
            raise NotImportable(f"{self._name} lacks the key `{key}`.")
        if not isinstance(value, list) or (value and not isinstance(value[0], kind)):
            raise NotImportable(f"{self._name} has a `{key}` that is no list of {kind.__name__}.")
        return value

    def ignore(self, key: str) -> None:
        """Count a key as read: it says nothing about what the model computes."""
        self._unread_keys.discard(key)

    def unread_keys(self, prefix: str) -> list[str]:
        """Return the keys that begin so and that nobody asked for."""
        return sorted(key for key in self._unread_keys if key.startswith(prefix))

    def unread_tensors(self) -> list[str]:
        """Return the tensors that nobody asked for."""
        return sorted(self._unread_tensors)

    def tensor(self, name: str, *shape: int) -> Tensor:
        """Return a tensor.

        Raises:
            NotImportable: It is missing, or has another shape.
        """
        found = self.find_tensor(name, *shape)
        if found is None:
            raise NotImportable(f"{self._name} lacks the tensor `{name}`.")
        return found

    def find_tensor(self, name: str, *shape: int) -> Tensor | None:
        """Return a tensor, or nothing where it is missing.

        Raises:
            NotImportable: It has another shape.
        """
        found = self._tensors.get(name)
        if found is None:
            return None
        self._unread_tensors.discard(name)
        if found.shape != shape:
            raise NotImportable(f"{self._name}: the tensor `{name}` is {found.shape} where {shape} is expected.")
        return found

    def has_tensor(self, name: str) -> bool:
        """Whether the file holds a tensor of that name."""
        return name in self._tensors

    def rows_of(self, name: str) -> int:
        """Return how many rows a tensor has.

        Raises:
            NotImportable: It is missing.
        """
        if name not in self._tensors:
            raise NotImportable(f"{self._name} lacks the tensor `{name}`.")
        return self._tensors[name].shape[0]

    def _value(self, key: str) -> Any:
        self._unread_keys.discard(key)
        field = self._fields.get(key)
        try:
            return None if field is None else field.contents()
        except UnicodeDecodeError:
            raise NotImportable(f"{self._name} has a `{key}` that is not UTF-8.") from None

    def _typed(self, key: str, value: object, kind: type[_Scalar]) -> _Scalar:
        if kind is float and type(value) is int:
            return kind(value)
        if type(value) is not kind:
            raise NotImportable(f"{self._name} has a `{key}` that is {type(value).__name__}, not {kind.__name__}.")
        return value


def _check_beginning(path: Path) -> None:
    try:
        with path.open("rb") as file:
            begin = file.read(64)
    except OSError as error:
        raise NotImportable(f"{path} cannot be read: {error.strerror}.") from None
    if begin.startswith(_MAGIC):
        return
    if begin.startswith(b"version https://git-lfs"):
        found = "a pointer of git-lfs, in place of the file itself: run `git lfs pull`, or download the file"
    elif begin.removeprefix(_BYTE_ORDER_MARK).lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        found = "a web page: the download was answered by a login or error page"
    elif not begin.strip(b"\0"):
        found = "empty or filled with zeros: the download did not finish"
    else:
        found = "of another format"
    raise NotImportable(f"{path.name} is not a GGUF file but {found}.")
