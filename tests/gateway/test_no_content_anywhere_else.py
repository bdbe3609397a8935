"""Canaries: unique strings go through every path, success and failure, and must be found in no sink but the answer.

Sinks are the log, standard output and error, every file of the state folder (records, spans, labels), error bodies of
our own, and what is sent to a target beside the body that was cleared for it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.pipeline import Pipeline
from inference_protocol.runtime_state import RuntimeState
from inference_protocol.text_parts import TextPart
from routing_policies.policy.loader import load_text
from routing_policies.signals.scanner import Scanner
from routing_policies.snapshot import Health
from tests.gateway.conftest import House, HouseFactory
from tests.support.scripted_runtime import DONE_EVENT, Answer, Received, ScriptedRuntime, event, says, state
from tests.support.waiting import until

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


@pytest.fixture
def sinks(tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Sinks:
    caplog.set_level(logging.INFO)
    return Sinks(tmp_path, caplog, capfd)


def able(**fields: Any) -> RuntimeState:
    """The report of a runtime that knows tools, as the requests here need."""
    report = state(**fields)
    return report.model_copy(update={"models": tuple(m.model_copy(update={"tools": True}) for m in report.models)})


async def post(
    h: House, content: bytes | dict[str, Any], path: str = "/v1/chat/completions", **more: str
) -> httpx.Response:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    headers = {"content-type": "application/json", **STRANGE_HEADERS, **more}
    return await h.gateway.client.post(f"{path}?q={QUERY}", content=raw, headers=headers)


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


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
async def test_whatever_a_target_answers_no_sink_holds_content(
    house: HouseFactory, sinks: Sinks, answer: Answer, stream: bool
) -> None:
    async with house(cloud=ScriptedRuntime(answer, able(window=8192)), edge=ScriptedRuntime(answer, able())) as h:
        await post(h, body(stream=stream))
        assert h.cloud.posts, "the cloud was not asked"
        assert HEADER.lower() not in beside_the_body(h.cloud) + beside_the_body(h.edge)
        assert ASKED.lower() not in beside_the_body(h.cloud) + beside_the_body(h.edge)
        assert QUERY.lower() not in beside_the_body(h.cloud) + beside_the_body(h.edge)
    assert sinks.holding(*CANARIES) == []


REFUSED: list[bytes | dict[str, Any]] = [
    f'{{"model": "auto", "{ASKED}": {ASKED}'.encode(),
    f'{{"{ASKED} {ASKED}": 1, "{ASKED} {ASKED}": 2}}'.encode(),
    ASKED.encode(),
    b"\xff" + ASKED.encode(),
    json.dumps([ASKED]).encode(),
    body(model=ASKED),
    body(messages=ASKED),
    body(messages=[{"role": ASKED, "content": ASKED}]),
    body(messages=[{"role": "user", "content": {"x": ASKED}}]),
    body(temperature=ASKED),
    body(stream_options=ASKED),
    body(response_format=ASKED),
    body(stop=[{"x": ASKED}]),
    body(tools=ASKED),
    body(api_base=f"http://{ASKED}.invalid/"),
]


@pytest.mark.parametrize("content", REFUSED, ids=range(len(REFUSED)))
async def test_a_refused_request_is_not_repeated_by_its_error_nor_by_any_sink(
    house: HouseFactory, sinks: Sinks, content: bytes | dict[str, Any]
) -> None:
    async with house() as h:
        for path in ("/v1/chat/completions", "/v1/route/explain"):
            response = await post(h, content, path)
            assert 400 <= response.status_code < 500
            assert ASKED not in response.text
            assert ASKED not in str(response.headers)
        assert not h.edge.posts + h.cloud.posts
        await post(h, b"")  # so that there is a record in any case
    assert sinks.holding(*CANARIES) == []


async def test_bad_headers_are_named_and_not_repeated(house: HouseFactory, sinks: Sinks) -> None:
    async with house() as h:
        for name in ("x-data-class", "x-data-tags", "x-latency-budget-ms", "content-encoding", "grpc-timeout"):
            response = await post(h, body(), **{name: f"{HEADER} {HEADER}"})
            assert response.status_code in {400, 415}
        assert not h.edge.posts + h.cloud.posts
    assert sinks.holding(*CANARIES) == []


def crashes(*_: object, **__: object) -> Any:
    raise ValueError(f"cannot work with {ASKED} and {EMAIL}")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/route/explain"])
async def test_a_crash_of_our_own_tells_nothing_of_the_request(
    house: HouseFactory, sinks: Sinks, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    async with house() as h:
        monkeypatch.setattr(Pipeline, "decide", crashes)
        response = await post(h, body(), path)
        assert response.status_code == 500
        assert response.json()["error"]["code"] == "internal_error"
        assert ASKED not in response.text
        await post(h, b"")
    assert sinks.holding(*CANARIES, EMAIL) == []


async def test_a_detector_that_fails_tells_nothing_of_what_it_read(
    house: HouseFactory, sinks: Sinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Scanner.scan

    def scan(self: Scanner, parts: Any) -> Any:
        return real(self, [*parts, TextPart("p", None, EMAIL)])

    async with house(edge=ScriptedRuntime(says(ANSWERED), able())) as h:
        monkeypatch.setattr("routing_policies.signals.network_addresses._is_somebodys", crashes)
        monkeypatch.setattr(Scanner, "scan", scan)
        response = await post(h, body(brand_new=f"{ASKED} 86.121.97.248"))
        assert response.headers["x-tidegate-label"].startswith("restricted"), "a failed detector is never clean"
        assert not h.cloud.posts
    assert sinks.holding(*CANARIES, EMAIL, "86.121.97.248") == []


async def test_a_caller_who_hangs_up_leaves_nothing_behind(house: HouseFactory, sinks: Sinks) -> None:
    async def begins(request: Received) -> None:
        await request.head()
        await request.chunk(event(content=ANSWERED))
        await asyncio.sleep(60)

    async with house(cloud=ScriptedRuntime(begins, able(window=8192))) as h:
        request = h.gateway.client.stream("POST", "/v1/chat/completions", json=body(stream=True))
        async with request as response:
            async for _ in response.aiter_bytes():
                break
        await until(h.cloud.posts[0].gone.is_set)
    assert sinks.holding(*CANARIES) == []


MAY = {"local_may": ["finish", "defer"]}


async def test_an_answer_that_is_kept_for_a_caller_who_hung_up_is_in_no_sink(house: HouseFactory, sinks: Sinks) -> None:
    go_on = asyncio.Event()

    async def in_two_steps(request: Received) -> None:
        await request.head()
        await request.chunk(event(content=ANSWERED))
        await go_on.wait()
        await request.chunk(event(content=ANSWERED, finish_reason="stop"))
        await request.chunk(DONE_EVENT)
        await request.end()

    async with house(edge=ScriptedRuntime(in_two_steps, able()), auth=MAY) as h:
        headers = {"x-data-class": "restricted", "x-on-disconnect": "finish"}
        request = h.gateway.client.stream("POST", "/v1/chat/completions", json=body(stream=True), headers=headers)
        async with request as response:
            async for _ in response.aiter_bytes():
                break
        go_on.set()
        await h.until_settled(1)
        url = f"/v1/requests/{response.headers['x-request-id']}"
        assert ANSWERED in (await h.gateway.client.get(f"{url}/stream")).text
        shown = (await h.gateway.client.get(url)).text + (await h.gateway.client.get(f"{url}x")).text
        assert ASKED not in shown
        assert ANSWERED not in shown
    assert sinks.holding(*CANARIES) == []


@pytest.mark.parametrize("answer", [ANSWERS[0], errors, blames, cuts], ids=lambda answer: answer.__name__)
async def test_a_request_that_is_put_off_and_its_answer_are_in_no_sink(
    house: HouseFactory, sinks: Sinks, answer: Answer
) -> None:
    async with house(edge=ScriptedRuntime(answer, able()), auth=MAY, outbox={"flush_per_s": 50}) as h:
        await h.edge.stop()
        await h.gateway.until_health(edge=Health.DOWN)
        put_off = await post(h, body(deferrable=True), **{"x-data-class": "restricted", "idempotency-key": HEADER})
        assert put_off.status_code == 202
        assert ASKED not in put_off.text
        assert sinks.holding(*CANARIES) == [], "while it waits"
        await h.edge.start()

        async def is_over() -> bool:
            return (await h.gateway.client.get(put_off.json()["status_url"])).json()["status"] in {"done", "failed"}

        await until(is_over)
        if answer is ANSWERS[0]:
            assert ANSWERED in (await h.gateway.client.get(put_off.json()["answer_url"])).text
        assert not h.cloud.posts
    assert sinks.holding(*CANARIES) == []


async def test_nothing_of_what_stays_here_is_sent_anywhere(house: HouseFactory, sinks: Sinks) -> None:
    async with house(edge=ScriptedRuntime(says(ANSWERED), able())) as h:
        for fields in ({"stream": True}, {"stream": False}):
            response = await post(h, body(**fields), **{"x-data-class": "restricted", "x-data-tags": MARKED.lower()})
            assert response.headers["x-tidegate-target"] == "edge"
        await h.edge.stop()
        assert (await post(h, body(), **{"x-data-class": "restricted"})).status_code == 503
        assert not h.cloud.posts
        assert ASKED.lower() not in beside_the_body(h.cloud)
    assert sinks.holding(*CANARIES) == []


REPLACING = """
apiVersion: tidegate/v1
name: replacing
defaults: {class: public}
targets:
  cloud: {kind: cloud, clearance: internal, pseudonymize: [pii], quality: 1.0}
  edge:  {kind: edge, clearance: restricted, quality: 0.1}
weights: {quality: 1.0}
"""


@pytest.fixture
def replacing(house: HouseFactory) -> Callable[..., Any]:
    @asynccontextmanager
    async def build(answer: Answer) -> AsyncIterator[House]:
        runtimes = {"cloud": ScriptedRuntime(answer, able(window=8192)), "edge": ScriptedRuntime(answer, able())}
        async with house(loaded=load_text(REPLACING, "replacing.yaml"), **runtimes) as h:
            yield h

    return build


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
async def test_what_a_token_stands_for_is_in_no_sink_and_does_not_leave(
    replacing: Any, sinks: Sinks, answer: Answer, stream: bool
) -> None:
    async with replacing(answer) as h:
        messages = [{"role": "user", "content": f"{ASKED}: write to {EMAIL}"}]
        await post(h, {"model": "auto", "messages": messages, "stream": stream, "max_tokens": 8})
        assert h.cloud.posts
        assert EMAIL.encode() not in b"".join(r.body for r in h.cloud.posts)
        assert EMAIL not in beside_the_body(h.cloud)
    assert sinks.holding(*CANARIES, EMAIL) == []
