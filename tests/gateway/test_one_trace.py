"""However a request ends, a collector is sent one connected trace of it, which says how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from observability import TelemetrySettings
from routing_policies.snapshot import Health
from tests.gateway.conftest import House
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver
from tests.support.running_gateway import running_gateway, settings_for
from tests.support.scripted_runtime import Answer, Received, ScriptedRuntime, event, says
from tests.support.tokenizer import write_word_tokenizer

EDGE_ONLY = {"x-data-class": "restricted"}
CALLERS_SPAN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ROOT = "POST /v1/chat/completions"
ROUTE = "route balanced"


async def breaks(request: Received) -> None:
    await request.json_answer(500, {"error": {"message": "broken"}})


async def cuts(request: Received) -> None:
    await request.head()
    await request.chunk(event(role="assistant", content="one "))
    request.cut()


async def hangs(request: Received) -> None:
    await asyncio.Event().wait()


async def drips(request: Received) -> None:
    await request.head()
    await request.chunk(event(role="assistant", content="one "))
    await asyncio.Event().wait()


def asking(status: int, headers: dict[str, str] | None = None, **fields: Any) -> Callable[[House], Awaitable[None]]:
    """A caller who asks this and gets that status."""

    async def ask(h: House) -> None:
        assert (await h.gateway.chat(headers=headers, **fields)).status_code == status

    return ask


async def hangs_up(h: House) -> None:
    body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    async with h.gateway.client.stream("POST", "/v1/chat/completions", json=body, headers=EDGE_ONLY) as response:
        async for _ in response.aiter_bytes():
            break


async def hangs_up_before_any_content(h: House) -> None:
    asked = asyncio.create_task(h.gateway.chat(headers=EDGE_ONLY))
    await h.edge.arrived.wait()
    asked.cancel()
    await asyncio.wait([asked])


@asynccontextmanager
async def traced(
    folder: Path, collector: OtlpReceiver, edge: Answer, *, sample_ratio: float = 1.0, **settings: Any
) -> AsyncIterator[House]:
    """A gateway whose spans go to the collector alone; all are there once the block has ended."""
    async with ScriptedRuntime(edge) as near, ScriptedRuntime(says("far away")) as far:
        write_word_tokenizer(folder / "models" / "smollm2-135m-instruct-q4_1")
        configured = settings_for(folder, edge=near.endpoint, cloud=far.endpoint, **settings)
        telling = TelemetrySettings("gateway", None, collector.endpoint, sample_ratio)
        async with running_gateway(configured, telemetry=telling) as gateway:
            await gateway.until_health(edge=Health.UP, cloud=Health.UP)
            yield House(gateway, near, far)


def attribute(span: Span, name: str) -> str | None:
    return next((each.value.string_value for each in span.attributes if each.key == name), None)


def marked(span: Span) -> tuple[str, str | None]:
    """Its name and error, which its status must not contradict."""
    error = attribute(span, "error.type")
    if span.kind == Span.SPAN_KIND_CLIENT:
        assert (span.status.code == Status.STATUS_CODE_ERROR) == (error is not None)
    return span.name.removesuffix(" smollm2-135m-instruct"), error


Marked = tuple[str, str | None]
CHAT: Marked = ("chat", None)


@pytest.mark.parametrize(
    ("edge", "ask", "settings", "outcome", "root", "below"),
    [
        pytest.param(says("fine"), asking(200, stream=True), {}, "ok", (200, None), [CHAT], id="ok"),
        pytest.param(
            *(says("fine"), asking(400, messages=[]), {}, "invalid_request", (400, "invalid_field"), None),
            id="not understood",
        ),
        pytest.param(
            *(says("fine"), asking(400, {"x-data-class": "odd"}), {}, "invalid_request", (400, "invalid_header"), None),
            id="not labelled",
        ),
        pytest.param(
            *(says("fine"), asking(400, EDGE_ONLY, max_tokens=10**6), {}),
            *("context_exceeded", (400, "context_length_exceeded"), []),
            id="refused by the policy",
        ),
        pytest.param(
            *(breaks, asking(200, stream=True), {}, "ok", (200, None), [("chat", "upstream_refused"), CHAT]),
            id="fallback",
        ),
        pytest.param(
            *(breaks, asking(502, EDGE_ONLY), {"attempts": {"most": 1}}),
            *("upstream_error", (502, "upstream_refused"), [("chat", "upstream_refused")]),
            id="failed",
        ),
        pytest.param(
            hangs, asking(200), {"attempts": {"hedge_after": 0.05}}, "ok", (200, None), [CHAT, CHAT], id="hedge"
        ),
        pytest.param(drips, hangs_up, {}, "client_closed", (200, None), [CHAT], id="cancelled in mid-stream"),
        pytest.param(
            hangs, hangs_up_before_any_content, {}, "client_closed", (None, None), [CHAT], id="cancelled before"
        ),
        pytest.param(
            *(cuts, asking(200, EDGE_ONLY, stream=True), {}),
            *("upstream_cut", (200, "upstream_cut"), [("chat", "upstream_cut")]),
            id="cut in mid-stream",
        ),
        pytest.param(
            *(hangs, asking(504, {**EDGE_ONLY, "x-latency-budget-ms": "300"}), {}),
            *("deadline_exceeded", (504, "deadline_exceeded"), [("chat", "deadline_exceeded")]),
            id="out of time",
        ),
        pytest.param(
            *(hangs, asking(504, EDGE_ONLY, stream=True), {"timeouts": {"first_content_s": 0.3}}),
            *("upstream_error", (504, "upstream_timed_out"), [("chat", "upstream_timed_out")]),
            id="a target that keeps silent",
        ),
    ],
)
async def test_a_request_is_one_connected_trace_however_it_ends(
    tmp_path: Path,
    edge: Answer,
    ask: Callable[[House], Awaitable[None]],
    settings: dict[str, Any],
    outcome: str,
    root: tuple[int | None, str | None],
    below: Sequence[Marked] | None,
) -> None:
    with otlp_receiver() as collector:
        async with traced(tmp_path, collector, edge, **settings) as h:
            await ask(h)
            [record] = await h.until_settled(1)
            told = {post.headers["traceparent"].rpartition("-")[0] for post in (*h.edge.posts, *h.cloud.posts)}
        spans = list(collector.spans)
    [top] = [span for span in spans if not span.parent_span_id]
    assert (top.name, top.kind, len(top.links)) == (ROOT, Span.SPAN_KIND_SERVER, 0)
    assert {span.trace_id.hex() for span in spans} == {record["trace_id"]}
    assert {span.parent_span_id for span in spans if span is not top} <= {top.span_id}
    assert all(top.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)

    status, error = root
    assert (record["outcome"], attribute(top, "tidegate.outcome")) == (outcome, outcome)
    assert attribute(top, "error.type") == error
    assert [each.value.int_value for each in top.attributes if each.key == "http.response.status_code"] == (
        [] if status is None else [status]
    )
    assert attribute(top, "tidegate.request_id") == record["request_id"]

    attempts = [span for span in spans if span.kind == Span.SPAN_KIND_CLIENT]
    attempts.sort(key=lambda span: span.start_time_unix_nano)
    assert [marked(span) for span in attempts] == list(below or ())
    assert [marked(span) for span in spans if span not in attempts and span is not top] == (
        [] if below is None else [(ROUTE, None)]
    )
    # A runtime's own spans hang below the attempt that asked it.
    assert told == {f"00-{span.trace_id.hex()}-{span.span_id.hex()}" for span in attempts}


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_callers_trace_is_the_parent_of_ours_only_where_callers_are_trusted(
    tmp_path: Path, trusted: bool
) -> None:
    with otlp_receiver() as collector:
        async with traced(tmp_path, collector, says("fine"), telemetry={"trust_inbound_trace": trusted}) as h:
            await h.gateway.chat(headers={"traceparent": CALLERS_SPAN, "baggage": "who=somebody"})
            await h.until_settled(1)
            [sent] = h.edge.posts
        [top] = [span for span in collector.spans if span.name == ROOT]
    _, trace_id, span_id, _ = CALLERS_SPAN.split("-")
    links = [(link.trace_id.hex(), link.span_id.hex()) for link in top.links]
    parent = (top.trace_id.hex(), top.parent_span_id.hex())
    assert (parent == (trace_id, span_id), links) == (trusted, [] if trusted else [(trace_id, span_id)])
    assert sent.headers["traceparent"].split("-")[1] == top.trace_id.hex()
    assert "baggage" not in sent.headers


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_stranger_who_wants_to_be_sampled_is_not(tmp_path: Path, trusted: bool) -> None:
    telling = {"trust_inbound_trace": trusted}
    with otlp_receiver() as collector:
        async with traced(tmp_path, collector, says("fine"), sample_ratio=0.0, telemetry=telling) as h:
            await h.gateway.chat(headers={"traceparent": CALLERS_SPAN})
            await h.gateway.chat()
            told = await h.until_settled(2)
        sampled = {span.trace_id.hex() for span in collector.spans}
        assert "gen_ai.server.request.duration" in collector.metrics, "what is counted is not sampled"
    assert len({record["trace_id"] for record in told}) == 2, "records have their ids all the same"
    assert sampled == ({CALLERS_SPAN.split("-")[1]} if trusted else set())
