"""A target that keeps what it is sent: where a leak is counted, whatever the gateway says of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import orjson
import uvicorn
from starlette.types import Receive, Scope, Send

from bench.parts.upstream import ANSWER, STATE

# Whatever a case holds, it must be the policy that keeps it back and not a lacking ability.
ABLE = STATE.model_copy(
    update={"models": tuple(m.model_copy(update={"tools": True, "json_schema": True}) for m in STATE.models)}
)


@dataclass
class RecordingTarget:
    """Answers every chat at once; `bodies` are those it was sent."""

    port: int = 0
    bodies: list[bytes] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        answer = ABLE.model_dump_json().encode()
        if scope["method"] == "POST":
            self.bodies.append(body)
            answer = ANSWER.encode()
            if orjson.loads(body).get("stream"):
                await self._stream(send)
                return
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    @staticmethod
    async def _stream(send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for delta, finish in (({"content": "Paris."}, None), ({}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            event = b"data: " + orjson.dumps({"id": "c", "choices": [choice]}) + b"\n\n"
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


@contextlib.asynccontextmanager
async def recording_target() -> AsyncIterator[RecordingTarget]:
    """Serve on a free port until the block ends."""
    target = RecordingTarget()
    server = uvicorn.Server(uvicorn.Config(target, log_level="error", access_log=False, lifespan="off"))
    sock = socket.create_server(("127.0.0.1", 0))
    target.port = sock.getsockname()[1]
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        yield target
    finally:
        server.should_exit = True
        await serving
