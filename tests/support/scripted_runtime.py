"""A runtime that does what a test tells it, over a real socket: the fake that faults are made with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

from inference_protocol.request import GENERATES, Task
from inference_protocol.runtime_state import RuntimeState, RuntimeStatus, ServedModel

MODEL = "smollm2-135m-instruct"


@dataclass
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, status: int = 200, content_type: str = "text/event-stream", extra: str = "") -> None:
        line = f"HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n{extra}\r\n"
        await self.send(line.encode())

    async def chunk(self, data: bytes) -> None:
        await self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def json_answer(self, status: int, body: Any, extra: str = "") -> None:
        data = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n{extra}\r\n"
        await self.send(head.encode() + data)

    def cut(self) -> None:
        self.writer.transport.abort()


Answer = Callable[[Received], Awaitable[None]]


def event(**delta: Any) -> bytes:
    """One chunk of an OpenAI stream."""
    finish = delta.pop("finish_reason", None)
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
USAGE_EVENT = (
    b'data: {"id":"c1","model":"' + MODEL.encode() + b'","choices":[],"usage":' + json.dumps(USAGE).encode() + b"}\n\n"
)
DONE_EVENT = b"data: [DONE]\n\n"


def says(text: str) -> Answer:
    """An answer that goes well, streamed or not as asked."""

    async def answer(request: Received) -> None:
        if not request.json.get("stream"):
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            body = {"id": "c1", "object": "chat.completion", "model": request.json["model"], "choices": [choice]}
            await request.json_answer(200, {**body, "usage": USAGE})
            return
        await request.head()
        await request.chunk(event(role="assistant", content=""))
        for word in text.split(" "):
            await request.chunk(event(content=word))
        await request.chunk(event(finish_reason="stop"))
        if (request.json.get("stream_options") or {}).get("include_usage"):
            await request.chunk(USAGE_EVENT)
        await request.chunk(DONE_EVENT)
        await request.end()

    return answer


def state(
    *,
    ms_per_token: float = 10.0,
    prefill_tokens_per_s: float = 1000.0,
    window: int = 2048,
    tasks: frozenset[Task] = GENERATES,
    **fields: Any,
) -> RuntimeState:
    """A runtime's report."""
    return RuntimeState(
        status=fields.pop("status", RuntimeStatus.READY),
        slots=fields.pop("slots", 4),
        waiting_limit=64,
        ms_per_token={1: ms_per_token, 4: ms_per_token},
        prefill_tokens_per_s=prefill_tokens_per_s,
        models=(ServedModel(id=MODEL, digest="0" * 64, window=window, tasks=tasks),),
        provider="scripted",
        **fields,
    )


class ScriptedRuntime:
    """Listens on 127.0.0.1 while it is entered."""

    def __init__(self, answer: Answer | None = None, report: RuntimeState | None = None) -> None:
        self.answer = answer or says("scripted")
        self.report = report or state()
        self.requests: list[Received] = []
        self.arrived = asyncio.Event()
        self.connections = 0
        self.port = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def posts(self) -> list[Received]:
        return [r for r in self.requests if r.method == "POST"]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in list(self._writers):
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.connections += 1
        try:
            while (request := await self._read(reader, writer)) is not None:
                self.requests.append(request)
                if request.method == "GET":
                    await request.json_answer(200, json.loads(self.report.model_dump_json()))
                    continue
                self.arrived.set()
                await self._answer(request, reader)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, request: Received, reader: asyncio.StreamReader) -> None:
        work = asyncio.ensure_future(self.answer(request))
        watch = asyncio.ensure_future(reader.read(1))  # a client that waits sends nothing: this returns at its hang-up
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        hung_up_on = work.done() and isinstance(work.exception(), ConnectionError)
        if hung_up_on or (watch.done() and not work.done()):
            request.gone.set()
            work.cancel()
        watch.cancel()
        await asyncio.gather(work, watch, return_exceptions=True)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Received | None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip().split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Received(method, path, headers, body, writer)
