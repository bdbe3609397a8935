"""The way past the framework for routes where each request counts: its layers cost more than a whole decision."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send


class DirectRoutes:
    """Hands POST requests for exact paths to their endpoints, and everything else to the application."""

    def __init__(self, endpoints: Mapping[str, ASGIApp], app: ASGIApp) -> None:
        """Route by path; `app` holds the same routes, so that it answers for their other methods."""
        self._endpoints = dict(endpoints)
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["method"] == "POST":
            endpoint = self._endpoints.get(scope["path"])
            if endpoint is not None:
                scope["endpoint"] = endpoint  # as the framework's router says; the SERVER span is named by it
                await endpoint(scope, receive, send)
                return
        await self._app(scope, receive, send)
