"""Answers with tensors: writing one, and looking whether another's is one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inference_protocol.errors import InvalidField, MalformedBody
from inference_protocol.json_body import parse_object, splice
from inference_protocol.open_inference.datatypes import Datatype
from inference_protocol.open_inference.infer_request import MAX_JSON_VALUES, read_datatype, read_shape

JSON_TYPE = "application/json"
BINARY_TYPE = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class OutputTensor:
    """A tensor of an answer; `data` is JSON text of its flat elements, or their bytes where it goes as those."""

    name: str
    datatype: Datatype
    shape: Sequence[int]
    data: bytes
    binary: bool


@dataclass(frozen=True, slots=True)
class InferAnswer:
    """The body of an answer; `json_bytes` is how much of it is JSON, `None` where all is and no bytes follow."""

    body: bytes
    json_bytes: int | None


def write_answer(
    model: str, version: str, request_id: str | None, outputs: Sequence[OutputTensor], further: Mapping[str, Any]
) -> InferAnswer:
    """Return an answer's body.

    Args:
        model: The public name.
        version: Of the model.
        request_id: The caller's own.
        outputs: In the order that they are to stand in.
        further: What else it tells, by top-level key.
    """
    head: dict[str, Any] = {"model_name": model, "model_version": version}
    if request_id is not None:
        head["id"] = request_id
    written = b",".join(map(_written, outputs))
    rest = json.dumps({**head, **further}, separators=(",", ":")).encode()
    text = rest[:-1] + b',"outputs":[' + written + b"]}"
    tails = [each.data for each in outputs if each.binary]
    if not tails:
        return InferAnswer(text, None)
    return InferAnswer(b"".join([text, *tails]), len(text))


def check_answer(body: bytes, json_bytes: int | None, wanted: Sequence[str] | None) -> dict[str, Any]:
    """Look whether an answer holds whole tensors, and those that were asked for; return its JSON.

    Raises:
        ValueError: It does not.
    """
    if json_bytes is not None and not 0 < json_bytes <= len(body):
        raise ValueError("The target's answer is shorter than its JSON is said to be.")
    try:
        tree = parse_object(body[:json_bytes], max_values=MAX_JSON_VALUES)
    except MalformedBody as error:
        raise ValueError(f"The target's answer is not the protocol's: {error.message}") from None
    outputs = tree.get("outputs")
    if not isinstance(outputs, list) or not all(isinstance(each, dict) for each in outputs):
        raise ValueError("The target's answer holds no list of `outputs`.")
    missing = set(wanted or ()) - {each.get("name") for each in outputs}
    if missing:
        raise ValueError("The target's answer lacks an output that was asked for.")
    announced = sum(_binary_size(each) for each in outputs)
    if announced != len(body) - (len(body) if json_bytes is None else json_bytes):
        raise ValueError("The target's answer does not hold the bytes that its outputs announce.")
    return tree


def renamed(body: bytes, json_bytes: int | None, tree: Mapping[str, Any], model: str) -> InferAnswer:
    """Return an answer under the public name of its model."""
    if tree.get("model_name") in (None, model):
        return InferAnswer(body, json_bytes)
    text = splice(body[:json_bytes], tree, {"model_name": json.dumps(model).encode()})
    if json_bytes is None:
        return InferAnswer(text, None)
    return InferAnswer(text + body[json_bytes:], len(text))


def _written(output: OutputTensor) -> bytes:
    head: dict[str, Any] = {"name": output.name, "datatype": output.datatype.value, "shape": list(output.shape)}
    if output.binary:
        head["parameters"] = {"binary_data_size": len(output.data)}
        return json.dumps(head, separators=(",", ":")).encode()
    return json.dumps(head, separators=(",", ":")).encode()[:-1] + b',"data":' + output.data + b"}"


def _binary_size(output: Mapping[str, Any]) -> int:
    try:
        read_datatype(output, "outputs")
        read_shape(output, "outputs")
    except InvalidField as error:
        raise ValueError(f"The target's answer holds something else than a tensor: {error.message}") from None
    parameters = output.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is None and isinstance(output.get("data"), list):
        return 0
    if type(size) is not int or size < 0:
        raise ValueError("The target's answer holds a tensor without elements.")
    return size
