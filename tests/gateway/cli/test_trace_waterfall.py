from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import SpanKind

from gateway.cli.waterfall import bar, of_request, waterfall
from observability.span_reader import StoredSpan

MS = 1_000_000


def _span(
    span_id: str,
    parent_id: str | None,
    at_ms: tuple[float, float],
    name: str = "",
    kind: SpanKind = SpanKind.INTERNAL,
    is_error: bool = False,
    **attributes: Any,
) -> StoredSpan:
    start, end = (1_000 * MS + int(ms * MS) for ms in at_ms)
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return StoredSpan(
        "gateway", "t" * 32, span_id, parent_id, name or span_id, kind, start, end, named, is_error=is_error
    )


def test_children_stand_under_their_parent_in_order_of_start_whatever_the_order_they_came_in() -> None:
    spans = [
        _span("late", "root", (6, 9)),
        _span("inner", "early", (2, 3)),
        _span("early", "root", (1, 5)),
        _span("root", None, (0, 10)),
    ]
    assert [(row.name, row.depth, row.start_ms, row.duration_ms) for row in waterfall(spans)] == [
        ("root", 0, 0.0, 10.0),
        ("early", 1, 1.0, 4.0),
        ("inner", 2, 2.0, 1.0),
        ("late", 1, 6.0, 3.0),
    ]


def test_no_spans_make_no_rows() -> None:
    assert waterfall([]) == []


def test_a_span_whose_parent_is_lost_is_a_root_and_keeps_its_children() -> None:
    spans = [_span("a", "lost", (0, 5)), _span("b", "a", (1, 2)), _span("c", "lost too", (6, 7))]
    assert [(row.name, row.depth) for row in waterfall(spans)] == [("a", 0), ("b", 1), ("c", 0)]


def test_timings_are_rows_about_and_inside_the_route_span() -> None:
    timed = {
        "tidegate__parse_ms": 0.25,
        "tidegate__scan_ms": 1.0,
        "tidegate__decide_ms": 0.5,
        "tidegate__record_ms": 2.0,
    }
    spans = [
        _span("POST", None, (0, 30), kind=SpanKind.SERVER, **timed, tidegate__relay_ms=4.0),
        _span("route balanced", "POST", (5, 7)),
        _span("chat", "POST", (9, 29)),
    ]
    rows = waterfall(spans)
    assert [(row.name, row.depth, row.start_ms, row.duration_ms, row.is_part) for row in rows] == [
        ("POST", 0, 0.0, 30.0, False),
        ("parse", 1, 4.75, 0.25, True),
        ("route balanced", 1, 5.0, 2.0, False),
        ("scan", 2, 5.0, 1.0, True),
        ("decide", 2, 6.0, 0.5, True),
        ("record", 1, 7.0, 2.0, True),
        ("chat", 1, 9.0, 20.0, False),
        ("relay", 1, 26.0, 4.0, True),
    ]


def test_without_a_route_span_timings_follow_each_other_from_the_start() -> None:
    [_, queue, prefill, decode] = waterfall(
        [_span("POST", None, (0, 9), tidegate__queue_ms=1.0, tidegate__prefill_ms=2.0, tidegate__decode_ms=5.0)]
    )
    assert [(r.name, r.start_ms) for r in (queue, prefill, decode)] == [
        ("queue", 0.0),
        ("prefill", 1.0),
        ("decode", 3.0),
    ]


def test_a_timing_that_is_also_a_span_is_drawn_once() -> None:
    spans = [_span("POST", None, (0, 9), tidegate__queue_ms=1.0), _span("queue", "POST", (0, 1))]
    assert [(row.name, row.is_part) for row in waterfall(spans)] == [("POST", False), ("queue", False)]


def test_an_attempt_says_where_it_went_and_why_it_failed() -> None:
    attempt = {"name": "chat smollm2", "kind": SpanKind.CLIENT, "tidegate__target": "cloud"}
    spans = [
        _span("1", None, (0, 1), **attempt, is_error=True, error__type="upstream_cut"),
        _span("2", None, (2, 3), **attempt),
    ]
    assert [(row.name, row.is_error) for row in waterfall(spans)] == [
        ("chat -> cloud: upstream_cut", True),
        ("chat -> cloud", False),
    ]


def test_one_request_is_told_from_others_in_the_same_trace() -> None:
    spans = [
        _span("queue", "runtime", (2, 3)),
        _span("runtime", "chat", (1, 4), tidegate__request_id="req-1"),
        _span("chat", "mine", (1, 5)),
        _span("mine", "caller", (0, 6), tidegate__request_id="req-1"),
        _span("other", "caller", (7, 8), tidegate__request_id="req-2"),
    ]
    assert {span.span_id for span in of_request(spans, "req-1")} == {"queue", "runtime", "chat", "mine"}
    assert of_request(spans, "nobody") == spans


@pytest.mark.parametrize(
    ("start", "length", "drawn"),
    [(0, 1, "████████"), (0.5, 0.25, "    ██"), (0, 0.0625, "▌"), (0.25, 0.3125, "  ██▌"), (1, 0, "       ▏")],
)
def test_a_bar_is_drawn_to_an_eighth_of_a_cell(start: float, length: float, drawn: str) -> None:
    assert bar(start, length, 8) == drawn


@given(start=st.floats(0, 1), length=st.floats(0, 1), width=st.integers(1, 200), ascii_only=st.booleans())
def test_a_bar_can_always_be_seen_and_never_leaves_its_column(
    start: float, length: float, width: int, ascii_only: bool
) -> None:
    drawn = bar(start, length, width, ascii_only=ascii_only)
    assert drawn.strip()
    assert len(drawn) <= width
    assert drawn.isascii() or not ascii_only
