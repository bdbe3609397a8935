"""The body of a scenario's request, in the protocol of its task."""

from __future__ import annotations

import json
import struct
from typing import Any

from inference_protocol.open_inference.infer_request import parse_infer
from inference_protocol.openai_chat import parse_chat
from inference_protocol.openai_completion import parse_completion
from inference_protocol.openai_embedding import parse_embedding
from inference_protocol.request import InferenceRequest, Task
from tests.gateway.egress.scenarios import Message, Scenario
from tests.support.scripted_runtime import MODEL

_NUMBERS = [0.25, -1.5, 3.0]


def request_of(scenario: Scenario) -> InferenceRequest:
    """Return what the scenario asks, parsed as the gateway parses it."""
    if scenario.task is Task.TENSOR:
        return _tensors(scenario)
    messages = [message.as_json() for message in scenario.messages]
    if scenario.task is Task.COMPLETION:
        return parse_completion(_json(model=MODEL, prompt=messages[0]["content"], stream=scenario.stream))
    if scenario.task is Task.EMBEDDING:
        inputs = [message["content"] for message in messages]
        return parse_embedding(_json(model=MODEL, input=inputs if len(inputs) > 1 else inputs[0]))
    return parse_chat(_json(model=MODEL, messages=messages, stream=scenario.stream))


def first_turn(scenario: Scenario) -> InferenceRequest:
    """Return the chat that went before."""
    return parse_chat(_json(model=MODEL, messages=[scenario.messages[0].as_json()], stream=scenario.stream))


def _json(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def _tensors(scenario: Scenario) -> InferenceRequest:
    """Each message is a tensor of text, and one of numbers where it has a picture; in bytes or in JSON."""
    inputs: list[dict[str, Any]] = []
    tail = b""
    for number, message in enumerate(scenario.messages):
        for tensor, data in _inputs_of(message, number):
            if scenario.stream:
                inputs.append({**tensor, "parameters": {"binary_data_size": len(data)}})
                tail += data
            else:
                values = _NUMBERS if tensor["datatype"] == "FP32" else message.values
                inputs.append({**tensor, "data": values})
    head = _json(inputs=inputs)
    return parse_infer(head + tail, MODEL, None, len(head) if scenario.stream else None)


def _inputs_of(message: Message, number: int) -> list[tuple[dict[str, Any], bytes]]:
    texts = [value.encode() for value in message.values]
    packed = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    found = [({"name": f"text{number}", "datatype": "BYTES", "shape": [len(texts)]}, packed)]
    if message.has_image:
        numbers = struct.pack(f"<{len(_NUMBERS)}f", *_NUMBERS)
        found.append(({"name": f"picture{number}", "datatype": "FP32", "shape": [len(_NUMBERS)]}, numbers))
    return found
