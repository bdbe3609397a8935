"""The pieces that descriptions of routes are made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from inference_protocol import errors, headers

_LABELS = ["public", "internal", "confidential", "restricted"]
_NUMBER_OF_MS = {"type": "number", "exclusiveMinimum": 0}
SENT_HEADERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
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
ID_HEADER = {headers.REQUEST_ID: "The request's id here."}
DECISION_HEADERS = {
    **ID_HEADER,
    headers.DECISION: "First digits of the digest of all that the decision was made from.",
    headers.POLICY: "The policy's name, the first digits of its digest, its version, and whether it is on trial.",
    headers.LABEL: "The request's class, and the kinds of what was found in it.",
    headers.SCORES: "The request's three scores, 0 to 1.",
}
ANSWER_HEADERS = {
    **DECISION_HEADERS,
    headers.TARGET: "Who answered.",
    headers.REASON: "Why that one.",
    headers.SERVER_TIMING: "Milliseconds that each part took.",
}
# What a route can fail with beside the classes below these.
OF_EVERY_ROUTE = (errors.InternalError,)
OF_DECIDING = (
    errors.InvalidRequest,
    errors.AuthenticationFailed,
    errors.Overloaded,
    errors.Draining,
    errors.IssuerUnavailable,
    *OF_EVERY_ROUTE,
)
OF_ANSWERING = (
    *OF_DECIDING,
    errors.PermissionDenied,
    errors.QuotaExceeded,
    errors.Unavailable,
    errors.DeadlineExceeded,
    errors.UpstreamError,
)


def parameters(sent: Mapping[str, tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return header fields as parameters, from their descriptions and schemas."""
    return [
        {"name": name, "in": "header", "description": description, "schema": schema}
        for name, (description, schema) in sent.items()
    ]


def failures(
    classes: Iterable[type[errors.TidegateError]], headers: Mapping[str, str] = ID_HEADER, schema: str = "Error"
) -> dict[str, Any]:
    """Return one response a status, with the codes that it may carry."""
    codes: defaultdict[int, list[str]] = defaultdict(list)
    wanted = tuple(classes)
    for each in errors.error_classes():
        if issubclass(each, wanted):
            codes[each.http_status].append(each.code)
    return {
        str(status): {**in_json(f"`code` is one of {', '.join(found)}.", schema), "headers": header_fields(headers)}
        for status, found in sorted(codes.items())
    }


def header_fields(described: Mapping[str, str]) -> dict[str, Any]:
    """Return header fields of an answer, from what each says."""
    return {name: {"description": words, "schema": {"type": "string"}} for name, words in described.items()}


def in_json(description: str, schema: str) -> dict[str, Any]:
    """Return an answer in JSON of this schema."""
    return {"description": description, "content": {"application/json": {"schema": ref(schema)}}}


def ref(name: str) -> dict[str, str]:
    """Return what stands for a schema of that name."""
    return {"$ref": f"#/components/schemas/{name}"}


def object_of(required: str, **properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these members, some required, that may have others."""
    return {"type": "object", "required": required.split(), "properties": properties, "additionalProperties": True}
