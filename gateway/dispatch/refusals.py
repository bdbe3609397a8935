"""A target's own error, told in ours: whose fault it is decides what is tried next."""

from __future__ import annotations

import re
from typing import Any

import httpx

from inference_protocol.context_overflow import read_overflow
from inference_protocol.errors import (
    ContextLengthExceeded,
    TidegateError,
    UpstreamBlamedRequest,
    UpstreamBusy,
    UpstreamRefused,
)

_MAX_MESSAGE_CHARS = 500
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_.\[\]-]{0,99}")
# A target that answers with one of these judged itself, the moment, or what settings chose (credential, path, model).
_NOT_THE_CALLERS_FAULT = frozenset({401, 402, 403, 404, 405, 407, 408, 409, 421, 425, 426, 429})
# And of these, whose words may quote the credential in part.
_OF_THE_CREDENTIAL = frozenset({401, 403, 407})
_BUSY = frozenset({429, 503, 529})
# An error that a server found after it had promised an answer has no status: it is an overflow under these too.
_MAY_BE_TOO_LONG = frozenset({None, 400, 413, 422, 500})


def refused(error: Any, response: httpx.Response, *, status: int | None, asked_s: float | None = None) -> TidegateError:
    """Turn a target's error object into ours, its words kept for the caller and for nobody else.

    Of its words those are left out that repeat the credential it was sent, which is no caller's to know.

    Args:
        error: As the target sent it.
        response: That it came with.
        status: The target's HTTP status, or `None` where the error came inside a stream.
        asked_s: Seconds that it asked to be left alone, where it did.

    Returns:
        `ContextLengthExceeded`, `UpstreamBusy`, `UpstreamBlamedRequest` or `UpstreamRefused`.
    """
    found = error.get("message") if isinstance(error, dict) else None
    credential = response.request.headers.get("authorization", "").partition(" ")[2]
    message = _words(found, credential) if isinstance(found, str) else "The target refused without saying why."
    if status in _OF_THE_CREDENTIAL:
        message = "The target did not accept what the gateway shows it: see `credential` of that target."
    details: dict[str, Any] = {} if status is None else {"upstream_status": status}
    if status in _MAY_BE_TOO_LONG and isinstance(error, dict):
        overflow = read_overflow(error)
        if overflow is not None:
            param = _field(error, credential) or "messages"
            return ContextLengthExceeded(message, param=param, details={**details, "window": overflow.window})
    if status in _BUSY:
        return UpstreamBusy(message, retry_after_s=asked_s, details={**details, "asked_s": asked_s})
    if status is not None and 400 <= status < 500 and status not in _NOT_THE_CALLERS_FAULT:
        return UpstreamBlamedRequest(message, param=_field(error, credential), details=details)
    return UpstreamRefused(message, retry_after_s=asked_s, details=details or None)


def _words(found: str, credential: str) -> str:
    told = found.replace(credential, "[credential]") if credential else found
    return told[:_MAX_MESSAGE_CHARS]


def _field(error: Any, credential: str) -> str | None:
    """Return the field of the request that a target's error names, where what it names can be one."""
    named = error.get("param") if isinstance(error, dict) else None
    if not isinstance(named, str) or not _FIELD.fullmatch(named) or (credential and credential in named):
        return None
    return named
