"""What is said of the Open Inference Protocol's routes; what a model takes and gives its own metadata says."""

from __future__ import annotations

from typing import Any

from gateway.api.openapi_parts import (
    ANSWER_HEADERS,
    OF_ANSWERING,
    SENT_HEADERS,
    failures,
    header_fields,
    in_json,
    object_of,
    parameters,
    ref,
)
from inference_protocol import errors, headers, paths
from inference_protocol.open_inference.datatypes import Datatype
from inference_protocol.open_inference.infer_answer import BINARY_TYPE, JSON_TYPE

_SCHEMA = "TensorError"
_OF_CALLERS = (errors.AuthenticationFailed, errors.PermissionDenied, errors.IssuerUnavailable, errors.HeadTooLarge)
_OF_MODELS = (*_OF_CALLERS, errors.UnknownModel, errors.NoTargetAvailable, errors.UpstreamError)
_LENGTH = "How much of the body is JSON, in bytes; those of tensors follow."
_TEXT = {"type": "string"}


def tensor_paths() -> dict[str, Any]:
    """Return what is said of each route."""
    found: dict[str, Any] = {
        paths.SERVER_METADATA: {"get": _get("Name, version and extensions.", "TensorServer", _OF_CALLERS)},
        paths.SERVER_LIVE: {"get": _health("Whether the process turns its loop.", "TensorHealth")},
        paths.SERVER_READY: {"get": _health("Whether something can answer.", "TensorHealth")},
    }
    for metadata, ready, infer in (
        (paths.MODEL_METADATA, paths.MODEL_READY, paths.MODEL_INFER),
        (paths.VERSION_METADATA, paths.VERSION_READY, paths.VERSION_INFER),
    ):
        named = _named(infer)
        found[metadata] = {"get": {**_get("A model's inputs and outputs.", "TensorModel", _OF_MODELS), **named}}
        found[ready] = {"get": {**_health("Whether it would be computed now.", "TensorHealth", _OF_MODELS), **named}}
        found[infer] = {"post": _infer(infer)}
    return found


def tensor_schemas() -> dict[str, Any]:
    """Return what they speak of."""
    shape = {"type": "array", "items": {"type": "integer"}}
    tensors = {"type": "array", "items": {"type": "object"}}
    tensor = object_of(
        "name shape datatype",
        name=_TEXT,
        shape={"type": "array", "items": {"type": "integer", "minimum": 0}},
        datatype={"type": "string", "enum": list(Datatype)},
        data={"type": "array", "description": "Elements, flat or nested as `shape` says."},
        parameters={"type": "object"},
    )
    return {
        "InferRequest": object_of(
            "inputs", id=_TEXT, inputs={"type": "array", "items": tensor, "minItems": 1}, parameters={"type": "object"}
        ),
        "InferAnswer": object_of(
            "model_name outputs", model_name=_TEXT, model_version=_TEXT, id=_TEXT, outputs=tensors
        ),
        "TensorServer": object_of("name version extensions", name=_TEXT, version=_TEXT, extensions={"type": "array"}),
        "TensorHealth": object_of("", live={"type": "boolean"}, ready={"type": "boolean"}, name=_TEXT),
        "TensorModel": object_of(
            "name versions platform inputs outputs",
            name=_TEXT,
            versions={"type": "array", "items": _TEXT},
            platform=_TEXT,
            inputs={
                "type": "array",
                "items": object_of("name datatype shape", name=_TEXT, datatype=_TEXT, shape=shape),
            },
            outputs=tensors,
        ),
        _SCHEMA: object_of("error code", error=_TEXT, code=_TEXT, param={"type": ["string", "null"]}),
    }


def _infer(path: str) -> dict[str, Any]:
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {JSON_TYPE: {"schema": ref("InferAnswer")}, BINARY_TYPE: binary}
    answer = {"description": "The outputs; as bytes where that was asked for.", "content": content}
    sent = {headers.INFERENCE_JSON_LENGTH: (_LENGTH, {"type": "integer", "minimum": 1})}
    return {
        "summary": "Have outputs computed by the target that the policy chooses.",
        "parameters": [*_named(path)["parameters"], *parameters({**SENT_HEADERS, **sent})],
        "requestBody": {"required": True, "content": {JSON_TYPE: {"schema": ref("InferRequest")}}},
        "responses": {
            "200": {**answer, "headers": header_fields(ANSWER_HEADERS)},
            **failures(OF_ANSWERING, schema=_SCHEMA),
        },
    }


def _get(summary: str, schema: str, classes: tuple[type[errors.TidegateError], ...]) -> dict[str, Any]:
    failed = failures(classes, headers={}, schema=_SCHEMA)
    return {"summary": summary, "responses": {"200": in_json(summary, schema), **failed}}


def _health(
    summary: str, schema: str, classes: tuple[type[errors.TidegateError], ...] = (errors.Unavailable,)
) -> dict[str, Any]:
    found = _get(summary, schema, classes)
    found["responses"]["503"] = in_json("Not now.", schema)
    return found


def _named(path: str) -> dict[str, Any]:
    names = [name for name in ("model", "version") if f"{{{name}}}" in path]
    return {"parameters": [{"name": each, "in": "path", "required": True, "schema": _TEXT} for each in names]}
