"""A target's answer to a request for tensors: looked at, under its public name, its bytes as they came."""

from __future__ import annotations

import httpx

from gateway.answer import AnswerFacts, BufferedAnswer
from inference_protocol import headers
from inference_protocol.errors import InvalidHeader, UpstreamProtocol
from inference_protocol.open_inference.infer_answer import BINARY_TYPE, JSON_TYPE, check_answer, renamed
from inference_protocol.open_inference.infer_request import json_length
from inference_protocol.openai_stream import chunk_facts
from inference_protocol.request import InferenceRequest


def tensor_answer(response: httpx.Response, body: bytes, request: InferenceRequest) -> BufferedAnswer:
    """Return the answer as the caller is to see it.

    Raises:
        UpstreamProtocol: It is not the protocol's, or lacks what was asked for.
    """
    assert request.tensors is not None, "it is a request for tensors"
    wanted = [each.name for each in request.tensors.outputs or ()]
    said = response.headers.get(headers.INFERENCE_JSON_LENGTH)
    try:
        json_bytes = None if said is None else json_length(said, len(body))
        tree = check_answer(body, json_bytes, wanted)
    except InvalidHeader:
        raise UpstreamProtocol("The target's answer is shorter than its JSON is said to be.") from None
    except ValueError as exc:
        raise UpstreamProtocol(str(exc)) from None
    answer = renamed(body, json_bytes, tree, request.model)
    facts = AnswerFacts()
    facts.add(chunk_facts(tree))
    if answer.json_bytes is None:
        return BufferedAnswer(answer.body, facts, {"content-type": JSON_TYPE})
    head = {"content-type": BINARY_TYPE, headers.INFERENCE_JSON_LENGTH: str(answer.json_bytes)}
    return BufferedAnswer(answer.body, facts, head)
