"""The file of weights that both graphs read: written tensor by tensor, so that no more than one is ever in memory."""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

_ALIGNMENT = 64


class WeightsFile:
    """Appends arrays to a file and remembers where they lie, in ONNX's form of external data."""

    def __init__(self, file: BinaryIO, location: str) -> None:
        """Write to `file`, which graphs beside it know as `location`."""
        self._file = file
        self._location = location
        self._protos: dict[str, TensorProto] = {}

    def add(self, name: str, array: NDArray[Any]) -> str:
        """Write an array under a name, which is returned."""
        self._file.write(bytes(-self._file.tell() % _ALIGNMENT))
        offset = self._file.tell()
        content = np.ascontiguousarray(array)
        self._file.write(content.data)
        proto = TensorProto(
            name=name,
            data_type=helper.np_dtype_to_tensor_dtype(content.dtype),
            dims=content.shape,
            data_location=TensorProto.EXTERNAL,
        )
        places = {"location": self._location, "offset": str(offset), "length": str(content.nbytes)}
        for key, value in places.items():
            proto.external_data.add(key=key, value=value)
        self._protos[name] = proto
        return name

    def share(self, name: str, of: str, shape: tuple[int, ...]) -> str:
        """Give the same bytes another name and shape; the name is returned."""
        proto = TensorProto()
        proto.CopyFrom(self._protos[of])
        proto.name = name
        proto.dims[:] = shape
        self._protos[name] = proto
        return name

    def proto(self, name: str) -> TensorProto:
        """Return the tensor as a graph refers to it."""
        return self._protos[name]

    def __contains__(self, name: str) -> bool:
        return name in self._protos
