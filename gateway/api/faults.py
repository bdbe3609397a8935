"""Faults outside the inference routes, such as an unknown path, in the same shape as every other error."""

from __future__ import annotations

import orjson
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from inference_protocol.errors import InternalError, MethodNotAllowed, TidegateError, UnknownRoute


def install_fault_handlers(app: FastAPI) -> None:
    """Answer the framework's own errors in OpenAI's shape."""
    app.add_exception_handler(HTTPException, _http_exception)


async def _http_exception(request: Request, exc: Exception) -> Response:
    status = exc.status_code if isinstance(exc, HTTPException) else 500
    error: TidegateError
    if status == 404:
        error = UnknownRoute("No such path; `POST /v1/chat/completions` is where chat is answered.")
    elif status == 405:
        error = MethodNotAllowed(f"{request.method} is not accepted here.")
    else:
        error = InternalError("Tidegate could not handle this request.")
    headers = dict(getattr(exc, "headers", None) or {})
    body = orjson.dumps(error.to_openai(None))
    return Response(body, status_code=error.http_status, headers=headers, media_type="application/json")
