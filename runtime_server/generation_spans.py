"""What a request's trace tells of its generation: attributes of the SERVER span, and a child for each part.

The children are drawn afterwards, from what the engine measured, because spans live on the event loop and the engine
does not. No attribute holds content.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.trace import Span, SpanKind, Tracer

from inference_protocol import telemetry_names as names
from inference_protocol.request import InferenceRequest
from inference_protocol.timings import Timings
from observability import child
from runtime_server.choices import Choices
from runtime_server.engine import GenerationJob

_PROVIDER_NAME = "tidegate"
_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000


def describe_request(
    span: Span, request: InferenceRequest, jobs: Sequence[GenerationJob], *, execution_provider: str
) -> None:
    """Say what was asked for."""
    span.set_attributes(
        {
            names.GEN_AI_OPERATION_NAME: names.OPERATIONS[request.task],
            names.GEN_AI_PROVIDER_NAME: _PROVIDER_NAME,
            names.GEN_AI_REQUEST_MODEL: request.model,
            names.GEN_AI_REQUEST_STREAM: request.stream,
            names.GEN_AI_REQUEST_MAX_TOKENS: max(job.max_tokens for job in jobs),
            names.GEN_AI_INPUT_TOKENS: sum(len(job.prompt) for job in jobs[:: request.needs.n]),
            names.EXECUTION_PROVIDER: execution_provider,
        }
    )


def describe_answer(span: Span, choices: Choices, *, arrived_ns: int, first_text_ns: int | None) -> None:
    """Say what came of it, also where it did not come to its end.

    Args:
        span: The request's SERVER span.
        choices: As far as they came.
        arrived_ns: Unix nanoseconds at which the request arrived.
        first_text_ns: Unix nanoseconds of the first text, or `None` where there was none.
    """
    timings = choices.timings
    span.set_attributes(
        {
            names.GEN_AI_OUTPUT_TOKENS: choices.completion_tokens,
            names.GEN_AI_CACHED_TOKENS: choices.cached_tokens,
            names.QUEUE_MS: timings.queue_ms,
            names.PREFILL_MS: timings.prefill_ms,
            names.DECODE_MS: timings.decode_ms,
        }
    )
    reasons = tuple(answer.finish_reason for answer in choices.answers if answer.finish_reason is not None)
    if reasons:
        span.set_attribute(names.GEN_AI_RESPONSE_FINISH_REASONS, reasons)
    if first_text_ns is not None:
        span.set_attribute(names.GEN_AI_TIME_TO_FIRST_CHUNK, (first_text_ns - arrived_ns) / _NS_PER_S)


def draw_parts(tracer: Tracer, span: Span, timings: Timings, *, admitted_ns: int) -> None:
    """Draw `queue`, `prefill` and `decode` as children of `span`, one after the other from `admitted_ns`."""
    if not span.is_recording():
        return
    start_ns = admitted_ns
    parts = (("queue", timings.queue_ms), ("prefill", timings.prefill_ms), ("decode", timings.decode_ms))
    for name, length_ms in parts:
        end_ns = start_ns + int(length_ms * _NS_PER_MS)
        child(tracer, span, name, SpanKind.INTERNAL, start_ns).end(end_ns)
        start_ns = end_ns
