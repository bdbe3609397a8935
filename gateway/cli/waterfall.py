"""From the spans of a trace to the rows of a waterfall. Pure: knows no file and no terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from opentelemetry.trace import SpanKind

from inference_protocol import telemetry_names as names
from observability.span_reader import StoredSpan

_NS_PER_MS = 1e6
_BLOCKS = " ▏▎▍▌▋▊▉█"

_ROUTE = "route "
_IN_ROUTE = ("scan", "decide")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a waterfall: a span, or a timed part of one.

    Attributes:
        depth: 0 for a root.
        start_ms: Milliseconds after the trace's first start.
        is_part: Not a span of its own but a timing that a span carries.
    """

    service: str
    name: str
    depth: int
    start_ms: float
    duration_ms: float
    is_part: bool = False
    is_error: bool = False


def waterfall(spans: Iterable[StoredSpan]) -> list[Row]:
    """Return the rows of the spans, each under its parent and in order of start.

    A span whose parent is not there (a caller's, or one that is lost) is a root.
    """
    by_start = sorted(spans, key=lambda span: span.start_ns)
    if not by_start:
        return []
    known = {span.span_id for span in by_start}
    children: dict[str | None, list[StoredSpan]] = {}
    for span in by_start:
        children.setdefault(span.parent_id if span.parent_id in known else None, []).append(span)
    tree = _Tree(children, origin_ns=by_start[0].start_ns)
    return [row for root in children[None] for row in tree.rows(root, depth=0)]


def of_request(spans: Sequence[StoredSpan], request_id: str) -> list[StoredSpan]:
    """Return the spans of one request, where a trusted caller put several requests into one trace.

    All spans are returned if none says that it is of this request.
    """
    wanted = {span.span_id for span in spans if span.attributes.get(names.REQUEST_ID) == request_id}
    if not wanted:
        return list(spans)
    # Parents end after their children, so they come later in the files: repeat until no more is found.
    while more := {span.span_id for span in spans if span.parent_id in wanted} - wanted:
        wanted |= more
    return [span for span in spans if span.span_id in wanted]


def bar(start: float, length: float, width: int, *, ascii_only: bool = False) -> str:
    """Draw a bar in `width` cells; `start` and `length` are shares of it. However short, it can be seen."""
    first = min(int(start * width), width - 1)
    room = width - first
    if ascii_only:
        return " " * first + "#" * min(max(round(length * width), 1), room)
    full, eighths = divmod(min(max(round(length * width * 8), 1), room * 8), 8)
    return " " * first + "█" * full + (_BLOCKS[eighths] if eighths else "")


class _Tree:
    def __init__(self, children: dict[str | None, list[StoredSpan]], origin_ns: int) -> None:
        self._children = children
        self._origin_ns = origin_ns

    def rows(self, span: StoredSpan, depth: int) -> Iterator[Row]:
        below = self._children.get(span.span_id, [])
        yield Row(
            span.service,
            _title(span),
            depth,
            self._ms(span.start_ns),
            (span.end_ns - span.start_ns) / _NS_PER_MS,
            is_error=span.is_error,
        )
        groups = [[part] for part in self._parts(span, below, depth + 1)]
        groups += [list(self.rows(child, depth + 1)) for child in below]
        for group in sorted(groups, key=lambda group: (group[0].start_ms, group[0].is_part)):
            yield from group

    def _parts(self, span: StoredSpan, below: Sequence[StoredSpan], depth: int) -> Iterator[Row]:
        """Lay out what a span timed: one part after the other, about its `route` span where it has one."""
        timed = {part: span.attributes[name] for part, name in names.PARTS_MS.items() if name in span.attributes}
        route = next((child for child in below if child.name.startswith(_ROUTE)), None)
        begins_ns: dict[str, float] = {}
        if route is not None:
            parse_ns = timed.get("parse", 0.0) * _NS_PER_MS
            begins_ns = {"parse": route.start_ns - parse_ns, "scan": route.start_ns, "record": route.end_ns}
        if "relay" in timed:
            begins_ns["relay"] = span.end_ns - timed["relay"] * _NS_PER_MS
        at_ns: float = span.start_ns
        for part, ms in timed.items():
            if any(child.name == part for child in below):
                continue
            at_ns = begins_ns.get(part, at_ns)
            inside_route = route is not None and part in _IN_ROUTE
            yield Row(span.service, part, depth + inside_route, self._ms(at_ns), ms, is_part=True)
            at_ns += ms * _NS_PER_MS

    def _ms(self, unix_ns: float) -> float:
        return (unix_ns - self._origin_ns) / _NS_PER_MS


def _title(span: StoredSpan) -> str:
    """The span's name, and why it failed; an attempt says where it went, since the model is the same for all."""
    target = span.attributes.get(names.TARGET)
    title = span.name
    if span.kind is SpanKind.CLIENT and target is not None:
        title = f"{span.name.partition(' ')[0]} -> {target}"
    return f"{title}: {span.attributes.get(names.ERROR_TYPE, 'error')}" if span.is_error else title
