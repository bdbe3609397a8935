"""The OpenAPI document of the public routes: what is served under `/openapi.json`.

It is written by hand, since the inference routes stand beside the framework, and a test holds it to what they do. Of
OpenAI's own objects it names what Tidegate reads or adds; every other field passes as it is.
"""

from __future__ import annotations

import importlib.metadata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from inference_protocol import errors, headers, openai_body, paths
from serving.answers import send_json

_LABELS = ["public", "internal", "confidential", "restricted"]
_NUMBER_OF_MS = {"type": "number", "exclusiveMinimum": 0}
_SENT_HEADERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    headers.DATA_CLASS: ("Raises the request's privacy class.", {"type": "string", "enum": _LABELS}),
    headers.DATA_TAGS: ("Tags of the data, separated by commas.", {"type": "string"}),
    headers.LATENCY_BUDGET_MS: ("Milliseconds until the whole answer is due.", _NUMBER_OF_MS),
    headers.TTFT_BUDGET_MS: ("Milliseconds until the first content is due.", _NUMBER_OF_MS),
    headers.SAVE_DATA: ("A hint: `on` where the caller asks to save data.", {"type": "string"}),
    headers.CLIENT_NETWORK: (
        "A hint: what the caller is linked by, `;metered` where volume costs.",
        {"type": "string"},
    ),
    headers.CLIENT_BATTERY: ("A hint: percent of the caller's battery, `;charging` on mains.", {"type": "string"}),
    headers.EFFECTIVE_TYPE: ("A hint: how good the caller's link is, such as `3g`.", {"type": "string"}),
    headers.REQUEST_ID: ("The caller's own name for the request; kept in its record.", {"type": "string"}),
    headers.ON_DISCONNECT: (
        "What becomes of the answer when the caller hangs up: `finish` keeps it, and numbers the events of a stream.",
        {"type": "string", "enum": ["stop", "finish"]},
    ),
    headers.IDEMPOTENCY_KEY: (
        "The caller's own name for a deferrable request, which is then taken in once.",
        {"type": "string", "maxLength": 257},
    ),
}
_LAST_EVENT_ID = {
    headers.LAST_EVENT_ID: ("The `id` of the last event that came; the next one is sent first.", {"type": "string"})
}
_ID_HEADER = {headers.REQUEST_ID: "The request's id here."}
_DECISION_HEADERS = {
    **_ID_HEADER,
    headers.DECISION: "First digits of the digest of all that the decision was made from.",
    headers.POLICY: "The policy's name, the first digits of its digest, its version, and whether it is on trial.",
    headers.LABEL: "The request's class, and the kinds of what was found in it.",
    headers.SCORES: "The request's three scores, 0 to 1.",
}
_ANSWER_HEADERS = {
    **_DECISION_HEADERS,
    headers.TARGET: "Who answered.",
    headers.REASON: "Why that one.",
    headers.SERVER_TIMING: "Milliseconds that each part took.",
}
# What a route can fail with beside the classes below these.
_OF_EVERY_ROUTE = (errors.InternalError,)
_OF_DECIDING = (
    errors.InvalidRequest,
    errors.AuthenticationFailed,
    errors.Overloaded,
    errors.Draining,
    errors.IssuerUnavailable,
    *_OF_EVERY_ROUTE,
)
_OF_ANSWERING = (
    *_OF_DECIDING,
    errors.PermissionDenied,
    errors.QuotaExceeded,
    errors.Unavailable,
    errors.DeadlineExceeded,
    errors.UpstreamError,
)


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
                "get": _kept("How a kept request stands.", {"200": _json("Its state.", "KeptRequest")}),
                "delete": _kept("End it, and keep nothing of it.", {"204": {"description": "It is gone."}}),
            },
            paths.KEPT_ANSWER: {"get": _kept("The whole answer, once it is complete.", _kept_answer())},
            paths.KEPT_STREAM: {
                "get": _kept("The stream's events after one that came, as they come.", _kept_stream(), _LAST_EVENT_ID)
            },
            paths.MODELS: {"get": _for_callers(_get("The public model names, as OpenAI lists them.", "ModelList"))},
            paths.MODEL: {"get": _model()},
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
        "application/json": {"schema": _ref(schema)},
        "text/event-stream": {"schema": {"type": "string"}},
    }
    answer = {"description": "The answer, streamed where that was asked for.", "content": content}
    deferred = _json("Nobody can answer now; the answer will be at `answer_url`.", "KeptRequest")
    return {
        "200": {**answer, "headers": _headers(_ANSWER_HEADERS)},
        "202": {**deferred, "headers": _headers(_ID_HEADER)},
        **_failures(_OF_ANSWERING),
    }


def _explain() -> dict[str, Any]:
    found = _json("Who would answer, why, and what was measured.", "Explanation")
    return {
        **_takes("ChatRequest", "Say what would be decided for a request, and send it nowhere."),
        "responses": {"200": {**found, "headers": _headers(_DECISION_HEADERS)}, **_failures(_OF_DECIDING)},
    }


def _kept(
    summary: str, answers: Mapping[str, Any], sent: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType({})
) -> dict[str, Any]:
    id_ = {"name": "request_id", "in": "path", "required": True, "schema": {"type": "string"}}
    failures = _failures(_OF_KEPT, headers={})
    return {"summary": summary, "parameters": [id_, *_parameters(sent)], "responses": {**answers, **failures}}


def _kept_answer() -> dict[str, Any]:
    content = {"application/json": {"schema": {}}, "text/event-stream": {"schema": {"type": "string"}}}
    return {"200": {"description": "As its caller would have had it.", "content": content}}


def _kept_stream() -> dict[str, Any]:
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "200": {"description": "Events with data, each with its `id`.", "content": content},
        "204": {"description": "That event was the last."},
    }


def _parameters(sent: Mapping[str, tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "description": description, "schema": schema}
        for name, (description, schema) in sent.items()
    ]


def _takes(schema: str, summary: str) -> dict[str, Any]:
    return {
        "summary": summary,
        "parameters": _parameters(_SENT_HEADERS),
        "requestBody": {"required": True, "content": {"application/json": {"schema": _ref(schema)}}},
    }


def _get(summary: str, schema: str) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": _json(summary, schema)}}


def _model() -> dict[str, Any]:
    found = _for_callers(_get("One of them.", "Model"))
    name = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
    unknown = _failures((errors.UnknownModel,), headers={})
    return {**found, "parameters": [name], "responses": {**found["responses"], **unknown}}


def _for_callers(found: dict[str, Any]) -> dict[str, Any]:
    """What only callers are answered."""
    classes = (errors.AuthenticationFailed, errors.PermissionDenied, errors.IssuerUnavailable)
    return {**found, "responses": {**found["responses"], **_failures(classes, headers={})}}


def _readiness() -> dict[str, Any]:
    found = _get("Whether requests can be answered, and how each target stands.", "Readiness")
    found["responses"]["503"] = _json("Not yet, or not any more.", "Readiness")
    return found


def _failures(classes: Iterable[type[errors.TidegateError]], headers: Mapping[str, str] = _ID_HEADER) -> dict[str, Any]:
    """One response a status, with the codes that it may carry."""
    codes: defaultdict[int, list[str]] = defaultdict(list)
    wanted = tuple(classes)
    for each in errors.error_classes():
        if issubclass(each, wanted):
            codes[each.http_status].append(each.code)
    return {
        str(status): {**_json(f"`code` is one of {', '.join(found)}.", "Error"), "headers": _headers(headers)}
        for status, found in sorted(codes.items())
    }


def _headers(described: Mapping[str, str]) -> dict[str, Any]:
    return {name: {"description": words, "schema": {"type": "string"}} for name, words in described.items()}


def _json(description: str, schema: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": _ref(schema)}}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required.split(), "properties": properties, "additionalProperties": True}


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
        "ChatRequest": _object(
            "model messages",
            model={"type": "string", "description": "A name that `/v1/models` lists; `auto` is the default one."},
            messages={"type": "array", "minItems": 1, "items": _object("role", role=_TEXT, content={})},
            max_completion_tokens=_COUNT,
            logprobs={"type": "boolean"},
            top_logprobs=_TOP_LOGPROBS,
            response_format=_MAPPING,
            tools={"type": "array", "items": _MAPPING},
            tool_choice={},
            parallel_tool_calls={"type": "boolean"},
            **_GENERATED,
        ),
        "CompletionRequest": _object(
            "model prompt",
            model={"type": "string", "description": "A name that `/v1/models` lists; `auto` is the default one."},
            prompt={"description": "A text, several, the token ids of one, or those of several."},
            echo={"type": "boolean"},
            logprobs=_TOP_LOGPROBS,
            **_GENERATED,
        ),
        "EmbeddingRequest": _embedding_request(),
        "EmbeddingList": _object("object data", object=_TEXT, data={"type": "array"}, model=_TEXT, usage=_MAPPING),
        "ChatCompletion": _object("choices", choices={"type": "array"}, model=_TEXT, usage=_MAPPING),
        "Completion": _object("choices", choices={"type": "array"}, model=_TEXT, usage=_MAPPING),
        "Explanation": _explanation(),
        "KeptRequest": _kept_request(),
        "Model": _object("id object", id=_TEXT, object=_TEXT, targets=_TEXTS),
        "ModelList": _object("object data", object=_TEXT, data={"type": "array", "items": _ref("Model")}),
        "Status": _object("status", status=_TEXT),
        "Readiness": _object("status", status=_TEXT, policy=_MAPPING, targets=_MAPPING),
        "Error": _object("error", error=_error()),
    }


def _embedding_request() -> dict[str, Any]:
    return _object(
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
    return _object("id object status", status=status, position=place, **may_be_null, **told)


def _explanation() -> dict[str, Any]:
    mapped = dict.fromkeys("label deadline size scores targets".split(), _MAPPING)
    said = dict.fromkeys("request_id reason because digest".split(), _TEXT)
    policy = _object("name digest", name=_TEXT, digest=_TEXT)
    members = {**said, **mapped, "target": _TEXT_OR_NULL, "order": _TEXTS, "policy": policy}
    return _object(" ".join(members), **members)


def _error() -> dict[str, Any]:
    said = dict.fromkeys("message type code request_id".split(), _TEXT)
    return _object("message type param code", **said, param=_TEXT_OR_NULL, details=_MAPPING)
