"""Faults outside the inference routes, such as an unknown path, in the same shape as every other error."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from serving.answers import error_body_at, refusal_of


def install_fault_handlers(app: FastAPI) -> None:
    """Answer the framework's own errors in the shape of the path's protocol."""
    app.add_exception_handler(HTTPException, _http_exception)


async def _http_exception(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException), "it is registered for nothing else"
    error = refusal_of(exc)
    headers = dict(exc.headers or {})
    return Response(
        error_body_at(request.scope["path"], error, None), error.http_status, headers, media_type="application/json"
    )
