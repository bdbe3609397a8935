"""The OpenAPI document of the public routes: what is served under `/openapi.json`.

It is written by hand, since the inference routes stand beside the framework, and a test holds it to what they do. Of
OpenAI's own objects it names what Tidegate reads or adds; every other field passes as it is.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from gateway.api.openapi_parts import (
    ANSWER_HEADERS,
    DECISION_HEADERS,
    ID_HEADER,
    OF_ANSWERING,
    OF_DECIDING,
    SENT_HEADERS,
    failures,
    header_fields,
    in_json,
    object_of,
    parameters,
    ref,
)
from gateway.api.openapi_tensors import tensor_paths, tensor_schemas
from inference_protocol import errors, headers, openai_body, paths
from serving.answers import send_json

_LAST_EVENT_ID = {
    headers.LAST_EVENT_ID: ("The `id` of the last event that came; the next one is sent first.", {"type": "string"})
}


_OF_KEPT = (
    errors.AuthenticationFailed,
    errors.PermissionDenied,
    errors.IssuerUnavailable,
    errors.UnknownRequest,
    errors.AnswerNotReady,
    errors.AnswerGone,
    errors.InvalidHeader,
    errors.InvalidField,
)


class OpenApiEndpoint:
    """Serves the document."""

    def __init__(self) -> None:
        """Write it once."""
        self._body = orjson.dumps(openapi_document())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with it."""
        await send_json(send, 200, self._body)


def openapi_document() -> dict[str, Any]:
    """Return the document as plain JSON values."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "version": importlib.metadata.version("tidegate"),
            "description": "One endpoint in front of a model on this machine and a large one elsewhere.",
        },
        "paths": {
            paths.CHAT_COMPLETIONS: {"post": _chat()},
            paths.COMPLETIONS: {"post": _completion()},
            paths.EMBEDDINGS: {"post": _embedding()},
            paths.ROUTE_EXPLAIN: {"post": _explain()},
            paths.KEPT_REQUEST: {
                "get": _kept("How a kept request stands.", {"200": in_json("Its state.", "KeptRequest")}),
                "delete": _kept("End it, and keep nothing of it.", {"204": {"description": "It is gone."}}),
            },
            paths.KEPT_ANSWER: {"get": _kept("The whole answer, once it is complete.", _kept_answer())},
            paths.KEPT_STREAM: {
                "get": _kept("The stream's events after one that came, as they come.", _kept_stream(), _LAST_EVENT_ID)
            },
            paths.MODELS: {"get": _for_callers(_get("The public model names, as OpenAI lists them.", "ModelList"))},
            paths.MODEL: {"get": _model()},
            **tensor_paths(),
            paths.LIVE: {"get": _get("Whether the process turns its loop.", "Status")},
            paths.READY: {"get": _readiness()},
        },
        "components": {"schemas": _schemas(), "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{"key": []}, {}],
    }


def _chat() -> dict[str, Any]:
    takes = _takes("ChatRequest", "Have a chat answered by the target that the policy chooses.")
    return {**takes, "responses": _answers("ChatCompletion")}


def _completion() -> dict[str, Any]:
    takes = _takes("CompletionRequest", "Have prompts continued, as they stand, by the target that the policy chooses.")
    return {**takes, "responses": _answers("Completion")}


def _embedding() -> dict[str, Any]:
    takes = _takes("EmbeddingRequest", "Have texts turned into vectors by the target that the policy chooses.")
    answers = _answers("EmbeddingList")
    del answers["200"]["content"]["text/event-stream"]
    return {**takes, "responses": answers}


def _answers(schema: str) -> dict[str, Any]:
    content = {
        "application/json": {"schema": ref(schema)},
        "text/event-stream": {"schema": {"type": "string"}},
    }
    answer = {"description": "The answer, streamed where that was asked for.", "content": content}
    deferred = in_json("Nobody can answer now; the answer will be at `answer_url`.", "KeptRequest")
    return {
        "200": {**answer, "headers": header_fields(ANSWER_HEADERS)},
        "202": {**deferred, "headers": header_fields(ID_HEADER)},
        **failures(OF_ANSWERING),
    }


def _explain() -> dict[str, Any]:
    found = in_json("Who would answer, why, and what was measured.", "Explanation")
    return {
        **_takes("ChatRequest", "Say what would be decided for a request, and send it nowhere."),
        "responses": {"200": {**found, "headers": header_fields(DECISION_HEADERS)}, **failures(OF_DECIDING)},
    }


def _kept(
    summary: str, answers: Mapping[str, Any], sent: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType({})
) -> dict[str, Any]:
    id_ = {"name": "request_id", "in": "path", "required": True, "schema": {"type": "string"}}
    failed = failures(_OF_KEPT, headers={})
    return {"summary": summary, "parameters": [id_, *parameters(sent)], "responses": {**answers, **failed}}


def _kept_answer() -> dict[str, Any]:
    content = {"application/json": {"schema": {}}, "text/event-stream": {"schema": {"type": "string"}}}
    return {"200": {"description": "As its caller would have had it.", "content": content}}


def _kept_stream() -> dict[str, Any]:
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "200": {"description": "Events with data, each with its `id`.", "content": content},
        "204": {"description": "That event was the last."},
    }


def _takes(schema: str, summary: str) -> dict[str, Any]:
    return {
        "summary": summary,
        "parameters": parameters(SENT_HEADERS),
        "requestBody": {"required": True, "content": {"application/json": {"schema": ref(schema)}}},
    }


def _get(summary: str, schema: str) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": in_json(summary, schema)}}


def _model() -> dict[str, Any]:
    found = _for_callers(_get("One of them.", "Model"))
    name = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
    unknown = failures((errors.UnknownModel,), headers={})
    return {**found, "parameters": [name], "responses": {**found["responses"], **unknown}}


def _for_callers(found: dict[str, Any]) -> dict[str, Any]:
    """What only callers are answered."""
    classes = (errors.AuthenticationFailed, errors.PermissionDenied, errors.IssuerUnavailable)
    return {**found, "responses": {**found["responses"], **failures(classes, headers={})}}


def _readiness() -> dict[str, Any]:
    found = _get("Whether requests can be answered, and how each target stands.", "Readiness")
    found["responses"]["503"] = in_json("Not yet, or not any more.", "Readiness")
    return found


_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_TEXTS = {"type": "array", "items": _TEXT}
_COUNT = {"type": "integer"}
_MAPPING = {"type": "object"}
_TOP_LOGPROBS = {"type": "integer", "minimum": 0, "maximum": openai_body.MAX_TOP_LOGPROBS}


def _between(least: float, most: float) -> dict[str, Any]:
    return {"type": "number", "minimum": least, "maximum": most}


# What both kinds of request may say of how their answers are generated; `Sampling` reads them.
_GENERATED: Mapping[str, Any] = {
    "deferrable": {"type": "boolean", "description": "Whether it may wait where nobody can answer now."},
    "stream": {"type": "boolean"},
    "stream_options": _MAPPING,
    "max_tokens": {"type": "integer", "minimum": 0, "maximum": openai_body.MAX_OUTPUT_TOKENS},
    "n": {"type": "integer", "minimum": 1, "maximum": openai_body.MAX_ANSWERS},
    "stop": {"type": ["string", "array", "null"]},
    "seed": {"type": ["integer", "null"]},
    "temperature": _between(0, 2),
    "top_p": _between(0, 1),
    "top_k": {"type": "integer", "minimum": -1},
    "min_p": _between(0, 1),
    "repetition_penalty": _between(0.01, 2),
    "presence_penalty": _between(-2, 2),
    "frequency_penalty": _between(-2, 2),
    "logit_bias": _MAPPING,
    "structured_outputs": _MAPPING,
}


def _schemas() -> dict[str, Any]:
    return {
        **tensor_schemas(),
        "ChatRequest": object_of(
            "model messages",
            model={"type": "string", "description": "A name that `/v1/models` lists; `auto` is the default one."},
            messages={"type": "array", "minItems": 1, "items": object_of("role", role=_TEXT, content={})},
            max_completion_tokens=_COUNT,
            logprobs={"type": "boolean"},
            top_logprobs=_TOP_LOGPROBS,
            response_format=_MAPPING,
            tools={"type": "array", "items": _MAPPING},
            tool_choice={},
            parallel_tool_calls={"type": "boolean"},
            **_GENERATED,
        ),
        "CompletionRequest": object_of(
            "model prompt",
            model={"type": "string", "description": "A name that `/v1/models` lists; `auto` is the default one."},
            prompt={"description": "A text, several, the token ids of one, or those of several."},
            echo={"type": "boolean"},
            logprobs=_TOP_LOGPROBS,
            **_GENERATED,
        ),
        "EmbeddingRequest": _embedding_request(),
        "EmbeddingList": object_of("object data", object=_TEXT, data={"type": "array"}, model=_TEXT, usage=_MAPPING),
        "ChatCompletion": object_of("choices", choices={"type": "array"}, model=_TEXT, usage=_MAPPING),
        "Completion": object_of("choices", choices={"type": "array"}, model=_TEXT, usage=_MAPPING),
        "Explanation": _explanation(),
        "KeptRequest": _kept_request(),
        "Model": object_of("id object", id=_TEXT, object=_TEXT, targets=_TEXTS),
        "ModelList": object_of("object data", object=_TEXT, data={"type": "array", "items": ref("Model")}),
        "Status": object_of("status", status=_TEXT),
        "Readiness": object_of("status", status=_TEXT, policy=_MAPPING, targets=_MAPPING),
        "Error": object_of("error", error=_error()),
    }


def _embedding_request() -> dict[str, Any]:
    return object_of(
        "model input",
        model={"type": "string", "description": "A name that `/v1/models` lists."},
        input={"description": "A text, several, the token ids of one, or those of several."},
        encoding_format={"type": "string", "enum": ["float", "base64"]},
        dimensions={"type": "integer", "minimum": 1},
        truncate_prompt_tokens={
            "type": "integer",
            "description": "Cut longer inputs to that; -1: to the window.",
        },
        deferrable=_GENERATED["deferrable"],
        user=_TEXT,
    )


def _kept_request() -> dict[str, Any]:
    status = {"type": "string", "enum": ["queued", "running", "done", "failed", "expired"]}
    may_be_null = dict.fromkeys("last_event_id reason run".split(), _TEXT_OR_NULL)
    told = dict.fromkeys("id object accepted_at expires_at status_url answer_url".split(), _TEXT)
    place = {"type": ["integer", "null"]}
    return object_of("id object status", status=status, position=place, **may_be_null, **told)


def _explanation() -> dict[str, Any]:
    mapped = dict.fromkeys("label deadline size scores targets".split(), _MAPPING)
    said = dict.fromkeys("request_id reason because digest".split(), _TEXT)
    policy = object_of("name digest", name=_TEXT, digest=_TEXT)
    members = {**said, **mapped, "target": _TEXT_OR_NULL, "order": _TEXTS, "policy": policy}
    return object_of(" ".join(members), **members)


def _error() -> dict[str, Any]:
    said = dict.fromkeys("message type code request_id".split(), _TEXT)
    return object_of("message type param code", **said, param=_TEXT_OR_NULL, details=_MAPPING)
