"""Callers that misbehave, and callers that leave: in every window the work ends, and every place is free again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from serving import http_protocol
from tests.chaos.acts import stream
from tests.chaos.faults import fine
from tests.gateway.conftest import House, HouseFactory
from tests.support.running_gateway import running_gateway, settings_for
from tests.support.scripted_runtime import DONE_EVENT, Received, ScriptedRuntime, event, state
from tests.support.waiting import until

RESTRICTED = {"x-data-class": "restricted"}  # only the edge may answer
LONG = "word " * 800  # the balanced policy sends it to the cloud


@contextlib.asynccontextmanager
async def connected(h: House) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    url = h.gateway.client.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    try:
        yield reader, writer
    finally:
        writer.close()


def posted(body: bytes, *headers: str) -> bytes:
    lines = ["POST /v1/chat/completions HTTP/1.1", "host: localhost", "content-type: application/json", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


GOOD = json.dumps({"model": "auto", "messages": [{"role": "user", "content": "hello"}]}).encode()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (posted(GOOD, f"content-length: {len(GOOD)}", f"content-length: {len(GOOD) + 1}"), 400),
        (posted(GOOD, f"content-length: {len(GOOD)}", "transfer-encoding: chunked"), 400),
        (posted(b"zz\r\n", "transfer-encoding: chunked"), 400),
        (posted(GOOD, "content-length: -1"), 400),
        (posted(GOOD, "x-much: " + "y" * (1 << 20), f"content-length: {len(GOOD)}"), 431),
        (posted(b"", f"content-length: {1 << 40}"), 413),
        (posted(b"\x1f\x8b", "content-encoding: gzip", "content-length: 2"), 415),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", 400),
    ],
    ids=[
        "two lengths",
        "a length and chunks",
        "chunks without a length",
        "a negative length",
        "a header of a megabyte",
        "a terabyte announced",
        "a compressed body",
        "another protocol",
    ],
)
async def test_a_request_that_cannot_be_read_is_refused_and_the_gateway_goes_on(
    house: HouseFactory, sent: bytes, status: int
) -> None:
    async with house() as h:
        async with connected(h) as (reader, writer):
            writer.write(sent)
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n"), 10)
            assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert not h.edge.posts + h.cloud.posts
        assert (await h.gateway.chat()).status_code == 200


async def test_a_request_that_trickles_is_given_up_in_its_body_and_in_its_head(
    house: HouseFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_S", 0.3)

    async def trickle(writer: asyncio.StreamWriter, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            for byte in data:
                writer.write(bytes([byte]))
                await asyncio.sleep(0.02)

    async with house(timeouts={"body_s": 0.3}, limits={"concurrent_requests": 1}) as h:
        async with connected(h) as (reader, writer):
            writer.write(posted(b"", f"content-length: {len(GOOD)}"))
            trickling = asyncio.create_task(trickle(writer, GOOD))
            assert (await asyncio.wait_for(reader.read(), 10)).startswith(b"HTTP/1.1 408 ")
            trickling.cancel()
        async with connected(h) as (reader, writer):
            trickling = asyncio.create_task(trickle(writer, posted(b"", "x: " + "y" * 1000)))
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            trickling.cancel()
        assert (await h.gateway.chat()).status_code == 200


async def test_a_caller_is_sent_comments_while_the_target_is_silent_in_its_answer(house: HouseFactory) -> None:
    go_on = asyncio.Event()

    async def pauses(request: Received) -> None:
        await request.head()
        await request.chunk(event(content="a"))
        await go_on.wait()
        await request.chunk(event(content="b", finish_reason="stop") + DONE_EVENT)
        await request.end()

    async with house(edge=ScriptedRuntime(pauses), timeouts={"ping_s": 0.1}) as h:
        body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}], "stream": True}
        got = b""
        async with h.gateway.client.stream("POST", "/v1/chat/completions", json=body) as response:
            async for piece in response.aiter_bytes():
                got += piece
                if got.count(b": ping\n\n") == 2:
                    go_on.set()
        assert (
            got.replace(b": ping\n\n", b"")
            == event(content="a") + event(content="b", finish_reason="stop") + DONE_EVENT
        )


# Each window: what the edge does, and how to know that the request has got there.
async def silent(_: Received) -> None:
    await asyncio.Event().wait()


async def busy(request: Received) -> None:
    await request.json_answer(503, {"error": {"message": "busy"}}, "retry-after-ms: 1500\r\n")


WINDOWS: dict[str, tuple[Any, bool]] = {
    "before the head": (silent, True),
    "before content": (stream(event(role="assistant"), stall=True), True),
    "in the stream": (stream(event(content="a"), stall=True), True),
    "not streamed": (silent, False),
    "held back by a busy target": (busy, False),
}


@pytest.mark.parametrize("window", list(WINDOWS))
async def test_a_caller_that_leaves_ends_the_work_and_leaves_no_place_taken(house: HouseFactory, window: str) -> None:
    act, streams = WINDOWS[window]
    async with house(edge=ScriptedRuntime(act)) as h:
        call = asyncio.create_task(h.gateway.chat(stream=streams, headers=RESTRICTED))
        await until(lambda: bool(h.edge.posts))
        if window == "held back by a busy target":
            await until(lambda: not h.gateway.app.targets["edge"].in_flight)
        call.cancel()
        await until_quiet(h)
        [outcome] = await h.until_settled(1)
        assert outcome["outcome"] == "client_closed"
        if window != "held back by a busy target":
            async with asyncio.timeout(5):
                await h.edge.posts[0].gone.wait()
        assert len(h.edge.posts) == 1


async def test_a_caller_that_leaves_the_line_for_a_place_leaves_it_to_the_next(house: HouseFactory) -> None:
    released = asyncio.Event()

    async def holds(request: Received) -> None:
        await released.wait()
        await fine(request)

    async with house(edge=ScriptedRuntime(holds)) as h:
        target = h.gateway.app.targets["edge"]
        target.pool.best().places = 1
        first = asyncio.create_task(h.gateway.chat(headers=RESTRICTED))
        await until(lambda: bool(h.edge.posts))
        leaves = asyncio.create_task(h.gateway.chat(headers=RESTRICTED))
        await until(lambda: target.pool.waiting == 1)
        stays = asyncio.create_task(h.gateway.chat(headers=RESTRICTED))
        await until(lambda: target.pool.waiting == 2)
        leaves.cancel()
        await until(lambda: target.pool.waiting == 1)
        released.set()
        assert ((await first).status_code, (await stays).status_code) == (200, 200)
        await until_quiet(h)
        assert len(h.edge.posts) == 2


async def test_of_a_hand_over_the_one_that_lost_is_told_to_stop_and_both_when_the_caller_leaves(
    house: HouseFactory,
) -> None:
    edge = ScriptedRuntime(fine, state(prefill_tokens_per_s=2000))
    cloud = ScriptedRuntime(silent, state(window=8192, prefill_tokens_per_s=1e6))
    async with house(edge=edge, cloud=cloud) as h:
        budget = {"x-ttft-budget-ms": "4000"}
        response = await h.gateway.chat(LONG, stream=True, max_tokens=8, headers=budget)
        assert response.status_code == 200
        assert response.headers["x-tidegate-target"] == "edge"
        assert response.headers["x-tidegate-reason"] == "hand-over; from=cloud"
        async with asyncio.timeout(5):
            await h.cloud.posts[0].gone.wait()
        [outcome] = await h.until_settled(1)
        assert [(each["target"], each["cause"], each["outcome"]) for each in outcome["attempts"]] == [
            ("cloud", "first", "superseded"),
            ("edge", "hand-over", "ok"),
        ]
        h.edge.answer = silent
        call = asyncio.create_task(h.gateway.chat(LONG, stream=True, max_tokens=8, headers=budget))
        await until(lambda: len(h.edge.posts) == 2)
        call.cancel()
        await until_quiet(h)
        outcome = (await h.until_settled(2))[1]
        assert [each["outcome"] for each in outcome["attempts"]] == ["client_closed", "client_closed"]


@contextlib.contextmanager
def full_backlog() -> Iterator[int]:
    """A port where a connection is never made: the queue of those that wait to be accepted is full."""
    with socket.socket() as listening, contextlib.ExitStack() as stack:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        port = listening.getsockname()[1]
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        yield port


@contextlib.contextmanager
def silent_listener() -> Iterator[int]:
    """A port where connections are made and nothing is ever said, so that a TLS handshake hangs."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize("window", ["connecting", "in the handshake"])
async def test_a_caller_that_leaves_while_a_connection_is_made_leaves_no_place_taken(
    tmp_path: Path, window: str
) -> None:
    where, scheme = (full_backlog, "http") if window == "connecting" else (silent_listener, "https")
    with where() as port:
        address = f"{scheme}://127.0.0.1:{port}"
        settings = settings_for(tmp_path, edge=address, cloud=address, protocol="openai")
        async with running_gateway(settings) as gateway:
            targets = gateway.app.targets
            call = asyncio.create_task(gateway.chat())
            await until(lambda: any(target.in_flight for target in targets))
            call.cancel()
            await until(lambda: not any(target.in_flight for target in targets) and not gateway.app.admission.count)


@pytest.mark.parametrize("window", ["connecting", "in the handshake"])
async def test_a_connection_that_is_not_made_in_time_is_given_up_before_any_other_bound(
    tmp_path: Path, window: str
) -> None:
    where, scheme = (full_backlog, "http") if window == "connecting" else (silent_listener, "https")
    with where() as port:
        address = f"{scheme}://127.0.0.1:{port}"
        timeouts = {"connect_s": 0.2}
        settings = settings_for(tmp_path, edge=address, cloud=address, protocol="openai", timeouts=timeouts)
        async with running_gateway(settings) as gateway:
            response = await gateway.chat()
            assert (response.status_code, response.json()["error"]["code"]) == (503, "no_target_available")


async def until_quiet(h: House) -> None:
    targets = h.gateway.app.targets
    await until(lambda: not h.gateway.app.admission.count and not any(target.in_flight for target in targets))
