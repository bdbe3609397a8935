"""Between tensors as the protocol carries them and arrays as models take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from inference_protocol.open_inference.datatypes import FLOATS, Datatype
from inference_protocol.open_inference.faults import TensorFault, fault
from inference_protocol.open_inference.infer_answer import OutputTensor
from inference_protocol.open_inference.tensors import Tensor, encode_byte_strings

DTYPES: Mapping[Datatype, str] = {
    Datatype.BOOL: "?",
    Datatype.UINT8: "u1",
    Datatype.UINT16: "<u2",
    Datatype.UINT32: "<u4",
    Datatype.UINT64: "<u8",
    Datatype.INT8: "i1",
    Datatype.INT16: "<i2",
    Datatype.INT32: "<i4",
    Datatype.INT64: "<i8",
    Datatype.FP16: "<f2",
    Datatype.FP32: "<f4",
    Datatype.FP64: "<f8",
}


def to_array(tensor: Tensor) -> NDArray[Any]:
    """Return a tensor's elements; what came as bytes is not copied.

    Raises:
        InvalidField: An element of BYTES is no text, which is all that models take as such.
    """
    heading, data = tensor.heading, tensor.data
    if heading.datatype is Datatype.BYTES:
        texts: NDArray[Any] = _strings(tensor).reshape(heading.shape)
        return texts
    dtype = DTYPES[heading.datatype]
    if not isinstance(data, memoryview):
        return np.array(data, dtype).reshape(heading.shape)
    if heading.datatype is Datatype.BOOL:  # whoever writes 255 for true
        truths: NDArray[Any] = np.frombuffer(data, "u1") != 0
        return truths.reshape(heading.shape)
    return np.frombuffer(data, dtype).reshape(heading.shape)


def to_output(name: str, datatype: Datatype, array: NDArray[Any], *, binary: bool) -> OutputTensor:
    """Return an array as a tensor of an answer.

    Raises:
        InvalidField: JSON cannot carry its values: they are not finite.
    """
    if datatype is Datatype.BYTES:
        texts = [str(each) for each in array.flat]
        data = encode_byte_strings([each.encode() for each in texts]) if binary else orjson.dumps(texts)
        return OutputTensor(name, datatype, array.shape, data, binary)
    array = np.ascontiguousarray(array, DTYPES[datatype])
    if binary:
        return OutputTensor(name, datatype, array.shape, array.tobytes(), binary)
    if datatype in FLOATS and not np.isfinite(array).all():
        raise fault(
            TensorFault.NOT_IN_JSON,
            "An output holds values that are not finite, which JSON cannot carry: ask for it with `binary_data`.",
            param="outputs",
            name=name,
        )
    return OutputTensor(name, datatype, array.shape, orjson.dumps(array.reshape(-1), option=_NUMPY), binary)


_NUMPY = orjson.OPT_SERIALIZE_NUMPY


def _strings(tensor: Tensor) -> NDArray[Any]:
    found = np.empty(len(tensor.data), object)
    for at, element in enumerate(tensor.data):
        try:
            found[at] = element.decode("utf-8")
        except UnicodeDecodeError:
            raise fault(
                TensorFault.WRONG_VALUE,
                f"Element {at} of `{tensor.heading.at}` is not UTF-8, which strings of a model must be.",
                param=f"{tensor.heading.at}.data",
                name=tensor.heading.name,
                index=at,
            ) from None
    return found
