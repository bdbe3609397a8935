"""A target that answers at once, in one piece or in CHUNKS events: `python -m bench.parts.upstream PORT CHUNKS [CUT]`.

With CUT, the connection of every so-many-th stream is closed in its middle. A stream for a caller that calls itself
`PACED` has `PACED_CHUNKS` events, `PACE_S` apart.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Iterator
from typing import cast

import uvloop

from inference_protocol.runtime_state import RuntimeState, RuntimeStatus, ServedModel

MODEL = "smollm2-135m-instruct"
PACED = "reads-along"
PACED_CHUNKS = 40
PACE_S = 0.005
# Until what was sent before a cut has been passed on, and nobody else can be asked instead.
READ_S = 0.05
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Paris. " * 20}, "finish_reason": "stop"}
USAGE = {"prompt_tokens": 200, "completion_tokens": 40, "total_tokens": 240}
ANSWER = json.dumps({"id": "c", "object": "chat.completion", "model": MODEL, "choices": [CHOICE], "usage": USAGE})
STATE = RuntimeState(
    status=RuntimeStatus.READY,
    slots=64,
    waiting_limit=64,
    ms_per_token={1: 1.0},
    prefill_tokens_per_s=100000.0,
    models=(ServedModel(id=MODEL, digest="0" * 64, window=1 << 20),),
    provider="none",
)


def _event(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


class Upstream(asyncio.Protocol):
    """One connection."""

    def __init__(self, chunks: int, cut: Iterator[bool]) -> None:
        self._buffer = b""
        self._chunks = chunks
        self._cut = cut

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's by type.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            at = head.find(b"content-length: ")
            length = int(head[at + 16 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            body = self._buffer[end + 4 : end + 4 + length]
            self._buffer = self._buffer[end + 4 + length :]
            if head.startswith(b"get"):
                self._json(STATE.model_dump_json().encode())
            elif b'"stream": true' in body:
                asyncio.ensure_future(self._stream(PACED.encode() in body))  # noqa: RUF006  # lives as long as its connection
            else:
                self._json(ANSWER.encode())

    def _json(self, body: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)

    async def _stream(self, paced: bool) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        self._transport.write(head)
        event = _event({"content": "word "})
        is_cut = next(self._cut)
        for number in range(PACED_CHUNKS if paced else self._chunks):
            if is_cut and number == self._chunks // 2:
                await asyncio.sleep(READ_S)
                self._transport.close()
                return
            self._transport.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            await asyncio.sleep(PACE_S if paced else 0)
        last = _event({}, "stop") + b"data: [DONE]\n\n"
        self._transport.write(f"{len(last):x}\r\n".encode() + last + b"\r\n0\r\n\r\n")


async def main() -> None:
    port, chunks, every = int(sys.argv[1]), int(sys.argv[2]), int((*sys.argv, "0")[3])
    cut = (every > 0 and number % every == 0 for number in itertools.count(1))
    server = await asyncio.get_running_loop().create_server(lambda: Upstream(chunks, cut), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
