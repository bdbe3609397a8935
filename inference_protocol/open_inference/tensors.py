"""A tensor of a request: its elements, once it has turned out to hold what it says.

Nothing is allocated for what a shape merely declares: it is compared with the bytes or the values that are there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from inference_protocol.errors import InvalidField
from inference_protocol.open_inference.datatypes import FLOATS, Datatype
from inference_protocol.open_inference.faults import TensorFault, fault

_LENGTH_BYTES = 4  # before each element of BYTES


@dataclass(frozen=True, slots=True)
class Heading:
    """What a tensor says of itself.

    Attributes:
        at: Its place, such as `inputs[0]`.
    """

    at: str
    name: str
    datatype: Datatype
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor, as many elements as its shape says, each of its type.

    Attributes:
        data: Elements, flat: of BYTES themselves; of others, JSON values, or bytes, little-endian in row-major order.
    """

    heading: Heading
    data: Sequence[Any] | memoryview


def from_json(heading: Heading, data: Sequence[Any]) -> Tensor:
    """Return a tensor of JSON values, flat or nested as its shape says.

    Raises:
        InvalidField: There are more or fewer than its shape says, or one is of another kind.
    """
    at = f"{heading.at}.data"
    if heading.datatype is Datatype.FP16:
        raise fault(
            TensorFault.NOT_IN_JSON,
            f"`{heading.at}` is FP16, which comes as bytes only: send it behind the JSON, or as FP32.",
            param=f"{heading.at}.datatype",
            name=heading.name,
        )
    found = _flat(heading, data)
    wrong = _first_wrong(heading.datatype, found)
    if wrong is not None:
        raise fault(
            TensorFault.WRONG_VALUE,
            f"`{at}` holds a value, at {wrong}, that {heading.datatype} cannot hold.",
            param=at,
            name=heading.name,
            index=wrong,
            expected=heading.datatype.value,
        )
    if heading.datatype is Datatype.BYTES:
        return Tensor(heading, [each.encode("utf-8", "surrogatepass") for each in found])
    return Tensor(heading, found)


def from_bytes(heading: Heading, data: memoryview) -> Tensor:
    """Return a tensor of bytes.

    Raises:
        InvalidField: They are not as many as its type and shape say.
    """
    size = heading.datatype.size
    least = heading.count * (_LENGTH_BYTES if size is None else size)
    if (size is None and len(data) < least) or (size is not None and len(data) != least):
        raise fault(
            TensorFault.WRONG_SIZE,
            f"`{heading.at}` has {len(data)} bytes where {heading.datatype} of its shape takes {least}.",
            param=f"{heading.at}.parameters.binary_data_size",
            name=heading.name,
            expected_bytes=least,
        )
    if heading.datatype is Datatype.BYTES:
        return Tensor(heading, list(_length_prefixed(heading, data)))
    return Tensor(heading, data)


def encode_byte_strings(elements: Sequence[bytes]) -> bytes:
    """Return elements as the protocol writes them in bytes: each behind its length."""
    return b"".join(chain.from_iterable((len(each).to_bytes(_LENGTH_BYTES, "little"), each) for each in elements))


def _flat(heading: Heading, data: Sequence[Any]) -> list[Any]:
    if not any(isinstance(each, list) for each in data):
        if len(data) != heading.count:
            raise _miscounted(heading, f"{len(data)} values")
        return list(data)
    level: list[Any] = [data]
    for axis, length in enumerate(heading.shape):
        if any(not isinstance(each, list) or len(each) != length for each in level):
            raise _miscounted(heading, f"lists of other lengths on axis {axis}")
        level = list(chain.from_iterable(level))
    return level


def _miscounted(heading: Heading, found: str) -> InvalidField:
    return fault(
        TensorFault.WRONG_COUNT,
        f"`{heading.at}.data` holds {found} where its shape takes {heading.count} in all.",
        param=f"{heading.at}.data",
        name=heading.name,
        expected_shape=heading.shape,
        expected_count=heading.count,
    )


def _first_wrong(datatype: Datatype, found: Sequence[Any]) -> int | None:
    kinds: tuple[type, ...]
    if datatype is Datatype.BYTES:
        kinds = (str,)
    elif datatype is Datatype.BOOL:
        kinds = (bool,)
    else:
        kinds = (int, float) if datatype in FLOATS else (int,)
    if not set(map(type, found)) <= set(kinds):
        return next(at for at, each in enumerate(found) if type(each) not in kinds)
    span = datatype.span
    if span is None or not found or (span[0] <= min(found) and max(found) <= span[1]):
        return None
    return next(at for at, each in enumerate(found) if not span[0] <= each <= span[1])


def _length_prefixed(heading: Heading, data: memoryview) -> Iterator[bytes]:
    at = 0
    for index in range(heading.count):
        begins = at + _LENGTH_BYTES
        ends = begins + int.from_bytes(data[at:begins], "little")
        if begins > len(data) or ends > len(data):
            raise fault(
                TensorFault.TRUNCATED,
                f"The bytes of `{heading.at}` end inside element {index}.",
                param=heading.at,
                name=heading.name,
                index=index,
            )
        yield bytes(data[begins:ends])
        at = ends
    if at != len(data):
        raise fault(
            TensorFault.WRONG_SIZE,
            f"Behind the {heading.count} elements of `{heading.at}` there are {len(data) - at} bytes too many.",
            param=heading.at,
            name=heading.name,
            expected_bytes=at,
        )
