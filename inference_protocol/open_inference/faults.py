"""What can be wrong with a tensor: by a name for programs, with its place, and with what was expected there."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from inference_protocol.errors import InvalidField
from inference_protocol.strings import is_plain_name

Shape = Sequence[int | str | None]
"""Lengths of axes; a name or `None` stands for any length."""


class TensorFault(StrEnum):
    """`details.reason` of an error about a tensor."""

    UNKNOWN_TENSOR = "unknown_tensor"
    MISSING_TENSOR = "missing_tensor"
    TWICE = "tensor_twice"
    WRONG_DATATYPE = "wrong_datatype"
    NOT_IN_JSON = "not_in_json"
    WRONG_SHAPE = "wrong_shape"
    WRONG_COUNT = "wrong_count"
    WRONG_VALUE = "wrong_value"
    WRONG_SIZE = "wrong_size"
    TRUNCATED = "truncated"
    TOO_LARGE = "too_large"
    EMPTY_BATCH = "empty_batch"


def fault(
    reason: TensorFault,
    message: str,
    *,
    param: str,
    name: str | None = None,
    expected_shape: Shape | None = None,
    **details: Any,
) -> InvalidField:
    """Return an error about a tensor.

    Args:
        reason: Its name.
        message: For a person.
        param: Where, such as `inputs[0].shape`.
        name: Of the tensor; one that may be somebody's data is left out.
        expected_shape: What its shape should have been.
        **details: Further facts for programs.
    """
    found: dict[str, Any] = {"reason": reason.value, **details}
    if name is not None and is_plain_name(name):
        found["tensor"] = name
    if expected_shape is not None:
        found["expected_shape"] = list(expected_shape)
    return InvalidField(message, param=param, details=found)
