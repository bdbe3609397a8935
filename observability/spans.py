"""Spans with an explicit parent. A span is started by hand, ended in `finally`, and never made current."""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Tracer, format_span_id, format_trace_id, set_span_in_context
from opentelemetry.util.types import Attributes

# An explicit empty context. `None` would read whatever another library made current.
NO_CONTEXT = Context()


def child(
    tracer: Tracer,
    parent: Span,
    name: str,
    kind: SpanKind,
    start_ns: int | None = None,
    attributes: Attributes = None,
) -> Span:
    """Start a span under `parent`; the caller ends it in a `finally`.

    Args:
        tracer: From `set_up`.
        parent: The span it stands under; an invalid one makes a new trace.
        name: Low-cardinality, such as `chat smollm2-135m-instruct`.
        kind: `CLIENT` for what is asked of another process, else `INTERNAL`.
        start_ns: Unix nanoseconds at which it began; now where absent.
        attributes: Known at the start; setting them here is cheaper than one by one later.
    """
    return tracer.start_span(
        name,
        context=set_span_in_context(parent, NO_CONTEXT),
        kind=kind,
        attributes=attributes,
        start_time=start_ns,
    )


def traceparent(span: Span) -> str:
    """Return the W3C `traceparent` header that makes the receiver's spans children of `span`."""
    context = span.get_span_context()
    return f"00-{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}-{context.trace_flags:02x}"
