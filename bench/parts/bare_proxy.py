"""The floor: a raw ASGI proxy over the gateway's own transport that looks at nothing. `... PORT UPSTREAM_PORT`."""

from __future__ import annotations

import sys
from typing import Any

import httpx
import uvicorn

from gateway.egress.endpoint import Endpoint
from gateway.egress.session import Reach
from gateway.egress.transport import AiohttpTransport


class BareProxy:
    """Forwards each request and relays what comes back."""

    def __init__(self, upstream_port: int) -> None:
        endpoint = Endpoint.parse(f"http://127.0.0.1:{upstream_port}")
        self._transport = AiohttpTransport(Reach(endpoint, connect_timeout_s=2.0, max_connections=256))
        self._url = endpoint.url("/v1/chat/completions")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {"content-type": "application/json"}
        answer = await self._transport.handle_async_request(
            httpx.Request("POST", self._url, content=body, headers=headers)
        )
        kept = [(k, v) for k, v in answer.headers.raw if k.lower() in (b"content-type", b"content-length")]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": kept})
        async for chunk in answer.stream:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


if __name__ == "__main__":
    app = BareProxy(int(sys.argv[2]))
    uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False, lifespan="off", http="httptools")
