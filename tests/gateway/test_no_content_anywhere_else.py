"""Canaries: unique strings go through every path, success and failure, and must be found in no sink but the answer.

Beside the sinks of `tests/support/canaries.py` these are the error bodies of our own, and what is sent to a target
beside the body that was cleared for it. What a request may go through beside the plain way is in
`test_no_content_on_other_ways.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.pipeline import Pipeline
from inference_protocol.text_parts import TextPart
from routing_policies.policy.loader import load_text
from routing_policies.signals.scanner import Scanner
from routing_policies.snapshot import Health
from tests.gateway.conftest import House, HouseFactory
from tests.support.canaries import (
    ANSWERED,
    ANSWERS,
    ASKED,
    CANARIES,
    EMAIL,
    HEADER,
    MARKED,
    QUERY,
    Sinks,
    able,
    beside_the_body,
    blames,
    body,
    cuts,
    errors,
    post,
)
from tests.support.scripted_runtime import DONE_EVENT, Answer, Received, ScriptedRuntime, event, says
from tests.support.waiting import until


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
async def test_whatever_a_target_answers_no_sink_holds_content(
    house: HouseFactory, sinks: Sinks, answer: Answer, stream: bool
) -> None:
    async with house(cloud=ScriptedRuntime(answer, able(window=8192)), edge=ScriptedRuntime(answer, able())) as h:
        await post(h.gateway, body(stream=stream))
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
            response = await post(h.gateway, content, path)
            assert 400 <= response.status_code < 500
            assert ASKED not in response.text
            assert ASKED not in str(response.headers)
        assert not h.edge.posts + h.cloud.posts
        await post(h.gateway, b"")  # so that there is a record in any case
    assert sinks.holding(*CANARIES) == []


async def test_bad_headers_are_named_and_not_repeated(house: HouseFactory, sinks: Sinks) -> None:
    async with house() as h:
        for name in ("x-data-class", "x-data-tags", "x-latency-budget-ms", "content-encoding", "grpc-timeout"):
            response = await post(h.gateway, body(), **{name: f"{HEADER} {HEADER}"})
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
        response = await post(h.gateway, body(), path)
        assert response.status_code == 500
        assert response.json()["error"]["code"] == "internal_error"
        assert ASKED not in response.text
        await post(h.gateway, b"")
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
        response = await post(h.gateway, body(brand_new=f"{ASKED} 86.121.97.248"))
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
        put_off = await post(
            h.gateway, body(deferrable=True), **{"x-data-class": "restricted", "idempotency-key": HEADER}
        )
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
            response = await post(
                h.gateway, body(**fields), **{"x-data-class": "restricted", "x-data-tags": MARKED.lower()}
            )
            assert response.headers["x-tidegate-target"] == "edge"
        await h.edge.stop()
        assert (await post(h.gateway, body(), **{"x-data-class": "restricted"})).status_code == 503
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
        await post(h.gateway, {"model": "auto", "messages": messages, "stream": stream, "max_tokens": 8})
        assert h.cloud.posts
        assert EMAIL.encode() not in b"".join(r.body for r in h.cloud.posts)
        assert EMAIL not in beside_the_body(h.cloud)
    assert sinks.holding(*CANARIES, EMAIL) == []
