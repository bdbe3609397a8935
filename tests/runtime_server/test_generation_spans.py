from __future__ import annotations

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind

from inference_protocol.timings import Timings
from runtime_server.engine import FinishReason
from tests.runtime_server.conftest import RunningRuntime, RuntimeFactory
from tests.runtime_server.scripted_engine import MODEL, ScriptedGeneration

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def spans_of(runtime: RunningRuntime) -> dict[str, ReadableSpan]:
    return {span.name: span for span in runtime.spans.get_finished_spans()}


def speak(generation: ScriptedGeneration) -> None:
    generation.timings_at_end = Timings(queue_ms=5, prefill_ms=20, decode_ms=100)
    generation.cached_tokens = 2
    generation.say("hello 4111 1111 1111 1111")
    generation.end(FinishReason.LENGTH)


async def test_a_request_is_one_span_in_the_callers_trace_with_its_parts_below(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.on_submit = speak
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "r-9"}
        await runtime.ask(headers=headers, stream=True)
        generation = runtime.engine.generations[0]
        spans = spans_of(runtime)
    server = spans["POST /v1/chat/completions"]
    assert server.kind is SpanKind.SERVER
    assert server.parent is not None
    assert f"{server.parent.span_id:016x}" == PARENT
    assert {f"{span.context.trace_id:032x}" for span in spans.values()} == {TRACE}
    for name in ("queue", "prefill", "decode"):
        parent = spans[name].parent
        assert parent is not None
        assert parent.span_id == server.context.span_id
    assert server.attributes is not None
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": MODEL,
        "gen_ai.request.stream": True,
        "gen_ai.request.max_tokens": generation.job.max_tokens,
        "gen_ai.response.finish_reasons": ("length",),
        "gen_ai.usage.input_tokens": len(generation.job.prompt),
        "gen_ai.usage.cache_read.input_tokens": 2,
        "tidegate.request_id": "r-9",
        "tidegate.outcome": "ok",
        "tidegate.prefill_ms": 20,
    }
    assert {name: server.attributes[name] for name in expected} == expected
    assert isinstance(server.attributes["gen_ai.response.time_to_first_chunk"], float)


async def test_the_parts_follow_each_other_as_long_as_the_engine_measured(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.on_submit = speak
        await runtime.ask()
        spans = spans_of(runtime)
    times = [(spans[name].start_time, spans[name].end_time) for name in ("queue", "prefill", "decode")]
    (a, b), (c, d), (e, f) = [(start or 0, end or 0) for start, end in times]
    assert (b - a, d - c, f - e) == (5_000_000, 20_000_000, 100_000_000)
    assert (b, d) == (c, e)
    assert a >= (spans["POST /v1/chat/completions"].start_time or 0)


async def test_no_span_holds_a_word_of_prompt_or_answer(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.on_submit = speak
        await runtime.ask("my card is cardinal-5500-0000")
        await runtime.ask("my card is cardinal-5500-0000", temperature="hot")
        everything = "".join(span.to_json() for span in runtime.spans.get_finished_spans())
    assert "4111 1111" not in everything
    assert "cardinal" not in everything
    assert "5500-0000" not in everything


async def test_an_engine_failure_in_the_middle_of_a_stream_is_an_error_in_the_trace(
    start_runtime: RuntimeFactory,
) -> None:
    def script(generation: ScriptedGeneration) -> None:
        generation.say("hello")
        generation.end(FinishReason.ERROR, "gone")

    async with start_runtime() as runtime:
        runtime.engine.on_submit = script
        await runtime.ask(stream=True)
        server = spans_of(runtime)["POST /v1/chat/completions"]
    assert server.attributes is not None
    assert server.attributes["http.response.status_code"] == 200
    assert server.attributes["error.type"] == "internal_error"
    assert server.attributes["tidegate.outcome"] == "internal_error"
    assert not server.status.is_ok


async def test_polls_and_probes_leave_no_span(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        for path in ("/livez", "/readyz", "/internal/state"):
            await runtime.client.get(path)
        assert runtime.spans.get_finished_spans() == ()
