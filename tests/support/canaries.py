"""Canaries: unique strings to send along, the targets that answer with them, and the sinks that must not hold any.

Sinks are the log, standard output and error, and every file of the state folder (records, spans, labels, what is kept).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from inference_protocol.runtime_state import RuntimeState
from tests.support.running_gateway import RunningGateway
from tests.support.scripted_runtime import Answer, Received, ScriptedRuntime, event, says, state

ASKED, ANSWERED = "cAnArYasked7e1", "cAnArYanswered4b2"
HEADER, QUERY, MARKED = "cAnArYheader9c3", "cAnArYquery5d4", "cAnArYmarked8f5"
CANARIES = (ASKED, ANSWERED, HEADER, QUERY)
EMAIL = "canary.person@corp-7e1.com"
LONG = "The tide turns twice a day. " * 130 + ASKED  # so that the cloud is asked first


def body(**fields: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": json.dumps({"x": ASKED})}}
    return {
        "model": "auto",
        "messages": [
            {"role": "system", "content": f"You are {ASKED}."},
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": ASKED},
            {"role": "user", "content": [{"type": "text", "text": LONG}]},
        ],
        "metadata": {"note": ASKED, ASKED: "as a key"},
        "brand_new": {ASKED: [ASKED]},
        "max_tokens": 8,
        **fields,
    }


# What a caller may send along; none of it goes any further.
STRANGE_HEADERS = {
    "cookie": f"session={HEADER}",
    "authorization": f"Bearer {HEADER}.{HEADER}",
    "x-api-key": HEADER,
    "x-forwarded-for": HEADER,
    "user-agent": HEADER,
    "openai-organization": HEADER,
    "baggage": f"user={HEADER}",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate": f"vendor={HEADER.lower()}",
}


class Sinks:
    """Everything that may be read by somebody who is not the caller."""

    def __init__(self, folder: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._caplog = caplog
        self._capfd = capfd

    def contents(self) -> Iterator[tuple[str, bytes]]:
        for path in sorted(self._folder.rglob("*")):
            if path.is_file() and "models" not in path.parts:
                yield path.name, path.read_bytes()
        formatter = logging.Formatter()
        # The test's own client logs what it asks for.
        logged = [
            formatter.format(r) for r in self._caplog.records if r.name.partition(".")[0] not in {"httpx", "httpcore"}
        ]
        yield "log", "\n".join(logged).encode()
        for name, text in zip(("stdout", "stderr"), self._capfd.readouterr(), strict=True):
            yield name, text.encode()

    def holding(self, *canaries: str) -> list[str]:
        found = list(self.contents())
        assert any(name == "requests.jsonl" and held for name, held in found), "no record was written"
        return [
            f"{canary} in {name}"
            for name, held in found
            for canary in canaries
            if canary.lower().encode() in held.lower()
        ]


def able(**fields: Any) -> RuntimeState:
    """The report of a runtime that knows tools, as the requests here need."""
    report = state(**fields)
    return report.model_copy(update={"models": tuple(m.model_copy(update={"tools": True}) for m in report.models)})


async def post(
    gateway: RunningGateway, content: bytes | dict[str, Any], path: str = "/v1/chat/completions", **more: str
) -> httpx.Response:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    headers = {"content-type": "application/json", **STRANGE_HEADERS, **more}
    return await gateway.client.post(f"{path}?q={QUERY}", content=raw, headers=headers)


def beside_the_body(runtime: ScriptedRuntime) -> str:
    """What a target was sent that is no body: its request line and headers."""
    return json.dumps([[r.path, r.headers] for r in runtime.requests]).lower()


async def errors(request: Received) -> None:
    await request.json_answer(500, {"error": {"message": f"could not read {ASKED}, said {ANSWERED}"}})


async def blames(request: Received) -> None:
    await request.json_answer(400, {"error": {"message": f"wrong: {ASKED} {ANSWERED}"}})


async def sends_html(request: Received) -> None:
    await request.head(200, f"text/html; {ANSWERED}")
    await request.chunk(f"<html>{ASKED}{ANSWERED}</html>".encode())
    await request.end()


async def sends_garbage(request: Received) -> None:
    await request.head()
    for _ in range(20):
        await request.chunk(f"data: {{{ANSWERED} {ASKED}\n\n".encode())
    await request.end()


async def errors_in_the_stream(request: Received) -> None:
    await request.head()
    await request.chunk(event(content=ANSWERED))
    await request.chunk(b"data: " + json.dumps({"error": {"message": f"{ASKED} {ANSWERED}"}}).encode() + b"\n\n")
    await request.end()


async def cuts(request: Received) -> None:
    await request.head()
    await request.chunk(event(content=ANSWERED))
    request.cut()


async def answers_a_bad_head(request: Received) -> None:
    await request.send(f"{ANSWERED} {ASKED}\r\n\r\n".encode())
    request.cut()


async def redirects(request: Received) -> None:
    await request.json_answer(307, {"x": ANSWERED}, extra=f"location: http://127.0.0.1/{ANSWERED}\r\n")


ANSWERS: list[Answer] = [
    says(f"fine {ANSWERED}"),
    errors,
    blames,
    sends_html,
    sends_garbage,
    errors_in_the_stream,
    cuts,
    answers_a_bad_head,
    redirects,
]
