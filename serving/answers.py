"""What every program of ours answers in the same way: errors in a protocol's shape, JSON, the head of a stream."""

from __future__ import annotations

import math
from collections.abc import Mapping

import orjson
from starlette.exceptions import HTTPException
from starlette.types import Send

from inference_protocol import headers, paths
from inference_protocol.errors import InternalError, MethodNotAllowed, TidegateError, UnknownRoute

EVENT_STREAM = "text/event-stream; charset=utf-8"
STREAM_HEADERS = {
    "content-type": EVENT_STREAM,
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # a buffering proxy in front would turn time to first token into time to last
}


def error_body(error: TidegateError, request_id: str | None) -> bytes:
    """Return an error as JSON, on one line: the body of an answer, or the data of a stream's last event."""
    return orjson.dumps(error.to_openai(request_id))


def error_body_at(path: str, error: TidegateError, request_id: str | None) -> bytes:
    """Return an error as the protocol of this path has it."""
    if path == paths.SERVER_METADATA or path.startswith(f"{paths.SERVER_METADATA}/"):
        return orjson.dumps(error.to_open_inference(request_id))
    return error_body(error, request_id)


def error_headers(error: TidegateError) -> dict[str, str]:
    """Return the headers that an error's status calls for."""
    found: dict[str, str] = {}
    if error.retry_after_s is not None:
        # Whole seconds (RFC 9110), and never 0: who comes back at once finds the same.
        found[headers.RETRY_AFTER] = str(max(1, math.ceil(error.retry_after_s)))
    if error.http_status == 401:
        found["www-authenticate"] = "Bearer"
    if error.http_status == 408:
        found["connection"] = "close"  # what is left of the request may still come, and would pass for the next one
    return found


def refusal_of(fault: HTTPException) -> TidegateError:
    """Return what the framework's router refuses, in our words."""
    if fault.status_code == 404:
        return UnknownRoute("There is no such path.")
    if fault.status_code == 405:
        return MethodNotAllowed(
            "This path takes another method.", details={"allow": (fault.headers or {}).get("Allow")}
        )
    return InternalError("Tidegate could not handle this request.")


async def send_head(send: Send, status: int, fields: Mapping[str, str]) -> None:
    """Send the head of an answer."""
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def send_json(send: Send, status: int, body: bytes, fields: Mapping[str, str] | None = None) -> None:
    """Send a whole answer in JSON, with further header fields beside those that say what it is."""
    await send_whole(send, status, body, {**(fields or {}), "content-type": "application/json"})


async def send_whole(send: Send, status: int, body: bytes, fields: Mapping[str, str]) -> None:
    """Send a whole answer; its length is added to the header fields."""
    await send_head(send, status, {**fields, "content-length": str(len(body))})
    await send({"type": "http.response.body", "body": body})
