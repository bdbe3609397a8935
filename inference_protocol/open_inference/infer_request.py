"""`POST /v2/models/{model}[/versions/{version}]/infer`: from its bytes to an `InferenceRequest`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from inference_protocol import fields, headers, openai_body
from inference_protocol.errors import InvalidField, InvalidHeader
from inference_protocol.json_body import parse_object
from inference_protocol.open_inference.call import TensorCall, WantedOutput
from inference_protocol.open_inference.datatypes import Datatype
from inference_protocol.open_inference.faults import TensorFault, fault
from inference_protocol.open_inference.tensors import Heading, Tensor, from_bytes, from_json
from inference_protocol.request import InferenceRequest, Task

MAX_TENSORS = 256
MAX_RANK = 16
# Of one tensor; axes of length 0 count as 1, or `[1000000000, 0]` would have a model make room for what it is asked.
MAX_ELEMENTS = 1 << 28
# A picture of 640 by 480 in three colours has a million; in bytes there is no such bound.
MAX_JSON_VALUES = 1 << 20
_MAX_DIGITS = 12
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


def json_length(header: str | None, body_bytes: int) -> int:
    """Return how much of a body is JSON, by `Inference-Header-Content-Length`.

    Raises:
        InvalidHeader: It is no number, or more than the body has.
    """
    if header is None:
        return body_bytes
    if not (header.isascii() and header.isdigit()) or len(header) > _MAX_DIGITS or not 0 < int(header) <= body_bytes:
        raise InvalidHeader(
            f"`{headers.INFERENCE_JSON_LENGTH}` must be the length of the JSON at the body's beginning, in bytes.",
            param=headers.INFERENCE_JSON_LENGTH,
        )
    return int(header)


def parse_infer(raw: bytes, model: str, version: str | None = None, json_bytes: int | None = None) -> InferenceRequest:
    """Read a request for tensors.

    Args:
        raw: The body.
        model: The public name, as it stands in the path.
        version: Likewise.
        json_bytes: `json_length`; all of it where that is not said.

    Raises:
        MalformedBody: The JSON cannot be read at all.
        InvalidField: A field or a tensor is not what it must be; `param` names it, `details` say what was expected.
        ForbiddenField: The body names a destination or a credential.
    """
    json_bytes = len(raw) if json_bytes is None else json_bytes
    if version is not None and not is_version(version):
        raise InvalidField("The path's version must be a short name of letters and digits.", param="version")
    tree = parse_object(raw[:json_bytes], max_values=MAX_JSON_VALUES)
    openai_body.refuse_forbidden(tree)
    binary_outputs = fields.boolean(_parameters(tree, ""), "binary_data_output", at="parameters.")
    call = TensorCall(
        version=version,
        id=fields.string(tree, "id") if tree.get("id") is not None else None,
        json_bytes=json_bytes,
        inputs=_inputs(tree, memoryview(raw)[json_bytes:]),
        outputs=_outputs(tree, default=binary_outputs),
        binary_outputs=binary_outputs,
    )
    return InferenceRequest(task=Task.TENSOR, model=model, raw=raw, tree=tree, output_cap=0, tensors=call)


def is_version(text: str) -> bool:
    """Whether a version of a model can have this name: it becomes a part of a path."""
    return _VERSION.fullmatch(text) is not None


def _inputs(tree: Mapping[str, Any], tail: memoryview) -> tuple[Tensor, ...]:
    found: list[Tensor] = []
    taken = 0
    for at, given in _objects(tree, "inputs"):
        size = _binary_size(given, at)
        if size is not None and taken + size > len(tail):
            raise fault(
                TensorFault.TRUNCATED,
                f"`{at}` announces {size} bytes, and {len(tail) - taken} are left of the body.",
                param=f"{at}.parameters.binary_data_size",
                left_bytes=len(tail) - taken,
            )
        tensor = _tensor(given, at, None if size is None else tail[taken : taken + size])
        if any(tensor.heading.name == other.heading.name for other in found):
            raise fault(TensorFault.TWICE, f"`{at}` has the name of an input before it.", param=f"{at}.name")
        found.append(tensor)
        taken += size or 0
    if taken != len(tail):
        raise fault(
            TensorFault.WRONG_SIZE,
            f"Behind the JSON there are {len(tail)} bytes, of which the inputs announce {taken}.",
            param="inputs",
            expected_bytes=taken,
        )
    return tuple(found)


def _tensor(given: Mapping[str, Any], at: str, tail: memoryview | None) -> Tensor:
    heading = Heading(at, fields.string(given, "name", at=f"{at}."), read_datatype(given, at), read_shape(given, at))
    data = given.get("data")
    if (data is None) == (tail is None):
        raise InvalidField(
            f"`{at}` must have its elements either as `data` or as bytes, by `parameters.binary_data_size`.",
            param=f"{at}.data",
        )
    if tail is not None:
        return from_bytes(heading, tail)
    if not isinstance(data, list):
        raise InvalidField(f"`{at}.data` must be a list.", param=f"{at}.data")
    return from_json(heading, data)


def read_datatype(given: Mapping[str, Any], at: str) -> Datatype:
    """Return the type that a tensor says it has.

    Raises:
        InvalidField: There is no such type.
    """
    try:
        return Datatype(str(given.get("datatype")))
    except ValueError:
        raise fault(
            TensorFault.WRONG_DATATYPE,
            f"`{at}.datatype` must be one of {', '.join(Datatype)}.",
            param=f"{at}.datatype",
            expected=list(Datatype),
        ) from None


def read_shape(given: Mapping[str, Any], at: str) -> tuple[int, ...]:
    """Return the shape that a tensor says it has.

    Raises:
        InvalidField: It is none, or one of more elements than are taken.
    """
    shape = given.get("shape")
    lengths: list[Any] = shape if isinstance(shape, list) else [None]
    if len(lengths) > MAX_RANK or any(type(each) is not int or each < 0 for each in lengths):
        raise fault(
            TensorFault.WRONG_SHAPE,
            f"`{at}.shape` must be a list of at most {MAX_RANK} lengths, none below 0.",
            param=f"{at}.shape",
        )
    if math.prod(max(1, each) for each in lengths) > MAX_ELEMENTS:
        raise fault(
            TensorFault.TOO_LARGE,
            f"`{at}.shape` has more than {MAX_ELEMENTS} elements.",
            param=f"{at}.shape",
            most_elements=MAX_ELEMENTS,
        )
    return tuple(lengths)


def _outputs(tree: Mapping[str, Any], *, default: bool) -> tuple[WantedOutput, ...] | None:
    if tree.get("outputs") in (None, []):
        return None
    found: list[WantedOutput] = []
    for at, given in _objects(tree, "outputs"):
        name = fields.string(given, "name", at=f"{at}.")
        if any(name == other.name for other in found):
            raise fault(TensorFault.TWICE, f"`{at}` has the name of an output before it.", param=f"{at}.name")
        own = _parameters(given, f"{at}.")
        if own.get("classification"):
            raise InvalidField(
                f"`{at}.parameters.classification` is not done here: read the scores themselves.",
                param=f"{at}.parameters.classification",
            )
        found.append(WantedOutput(name, fields.boolean(own, "binary_data", default, at=f"{at}.parameters.")))
    return tuple(found)


def _objects(tree: Mapping[str, Any], key: str) -> list[tuple[str, Mapping[str, Any]]]:
    given = tree.get(key)
    if not isinstance(given, list) or not 0 < len(given) <= MAX_TENSORS:
        raise InvalidField(f"`{key}` must be a list of 1 to {MAX_TENSORS} tensors.", param=key)
    for at, each in enumerate(given):
        if not isinstance(each, dict):
            raise InvalidField(f"`{key}[{at}]` must be an object.", param=f"{key}[{at}]")
    return [(f"{key}[{at}]", each) for at, each in enumerate(given)]


def _parameters(given: Mapping[str, Any], at: str) -> Mapping[str, Any]:
    found = given.get("parameters")
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InvalidField(f"`{at}parameters` must be an object.", param=f"{at}parameters")
    if "shared_memory_region" in found:
        raise InvalidField(
            f"`{at}parameters.shared_memory_region` is not read here: send the tensor in the body.",
            param=f"{at}parameters.shared_memory_region",
        )
    return found


def _binary_size(given: Mapping[str, Any], at: str) -> int | None:
    size = _parameters(given, f"{at}.").get("binary_data_size")
    if size is None:
        return None
    if type(size) is not int or size < 0:
        raise InvalidField(
            f"`{at}.parameters.binary_data_size` must be a number of bytes.",
            param=f"{at}.parameters.binary_data_size",
        )
    return size
