"""How streams must come: framed, in UTF-8, each ended once, with the counts exactly as they were asked for."""
# ruff: noqa: D103  # the name of a case is the rule that it looks at

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from gateway.cli.conformance.findings import Violation, error_of, expect
from gateway.cli.conformance.wire import Gateway, chunks_of

_HANG_UPS = 8
_PAUSE_S = 0.1
_COUNTED = {"include_usage": True}


def a_stream_says_that_it_is_one(gateway: Gateway) -> None:
    kind = gateway.stream().field("content-type") or ""
    expect(kind.startswith("text/event-stream"), f"its content-type is {kind!r}")


def a_stream_is_utf8(gateway: Gateway) -> None:
    body = gateway.stream(messages=[{"role": "user", "content": "Repeat: 北京 🙂 é"}], max_tokens=32).body
    try:
        body.decode()
    except UnicodeDecodeError as exc:
        raise Violation(f"byte {exc.start} of it is none") from None


def each_event_of_a_stream_is_a_chunk_of_one_answer(gateway: Gateway) -> None:
    chunks = chunks_of(gateway.stream())
    expect(bool(chunks), "there is none")
    for name in ("id", "object", "model", "choices"):
        expect(all(name in chunk for chunk in chunks), f"one has no `{name}`")
    expect({chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}, "`object` is not chat.completion.chunk")
    expect(len({chunk["id"] for chunk in chunks}) == 1, "not all have the same `id`")


def a_stream_ends_with_one_done(gateway: Gateway) -> None:
    ends = [frame.is_done for frame in gateway.stream().frames()]
    expect(any(ends), "[DONE] does not come")
    expect(ends.count(True) == 1, f"[DONE] comes {ends.count(True)} times")


def nothing_comes_after_done(gateway: Gateway) -> None:
    for fields in ({}, {"stream_options": _COUNTED}):
        frames = gateway.stream(**fields).frames()
        ends = [at for at, frame in enumerate(frames) if frame.is_done]
        expect(not ends or ends[0] == len(frames) - 1, f"{len(frames) - 1 - ends[0] if ends else 0} events do")


def a_choice_ends_with_one_reason(gateway: Gateway) -> None:
    chunks = chunks_of(gateway.stream())
    reasons = [c["finish_reason"] for chunk in chunks for c in chunk.get("choices", []) if c.get("finish_reason")]
    expect(len(reasons) == 1, f"`finish_reason` comes {len(reasons)} times")


def counts_come_once_where_they_are_asked_for(gateway: Gateway) -> None:
    counted = [chunk for chunk in chunks_of(gateway.stream(stream_options=_COUNTED)) if chunk.get("usage")]
    expect(len(counted) == 1, f"`usage` comes {len(counted)} times")
    expect(counted[0].get("choices") == [], "they come in a chunk that has choices")
    expect(counted[0]["usage"].get("completion_tokens", 0) > 0, "they count no token of the answer")


def counts_come_in_the_last_chunk(gateway: Gateway) -> None:
    chunks = chunks_of(gateway.stream(stream_options=_COUNTED))
    expect(bool(chunks) and bool(chunks[-1].get("usage")), "another comes after them, or they do not come")


def counts_stay_away_where_they_are_not_asked_for(gateway: Gateway) -> None:
    for fields in ({}, {"stream_options": {"include_usage": False}}):
        found = [chunk for chunk in chunks_of(gateway.stream(**fields)) if chunk.get("usage")]
        expect(not found, f"`usage` comes with {fields or 'no stream_options'}")


def options_of_streams_are_refused_without_a_stream(gateway: Gateway) -> None:
    reply = gateway.ask(stream_options=_COUNTED)
    if reply.status != 200:
        error_of(reply.status, reply.json())
        return
    expect(bool(reply.json().get("usage")), "they are ignored: the answer has no `usage`")


def what_cannot_be_streamed_is_refused_before_a_stream_begins(gateway: Gateway) -> None:
    reply = gateway.ask(stream=True, messages="hello")
    error_of(reply.status, reply.json())
    kind = reply.field("content-type") or ""
    expect(kind.startswith("application/json"), f"the content-type of the refusal is {kind!r}")


def a_stream_marks_its_own_end(gateway: Gateway) -> None:
    reply = gateway.stream()
    expect(reply.ends != "close", "it ends with the connection alone, so that one that was cut looks whole")


def a_connection_lives_on_after_a_stream(gateway: Gateway) -> None:
    with gateway.connected() as connection:
        connection.send(gateway.asked(stream=True))
        first = connection.reply()
        if first.ends == "close" or (first.field("connection") or "").lower() == "close":
            return
        connection.send(gateway.asked())
        expect(connection.reply().status == 200, "the next request on it is not answered")


def a_caller_that_hangs_up_takes_no_place_with_it(gateway: Gateway) -> None:
    for stream in (True, False):
        for _ in range(_HANG_UPS):
            with gateway.connected() as connection:
                connection.send(gateway.asked(stream=stream, max_tokens=256))
                if stream:
                    connection.some()
    until = time.monotonic() + gateway.patience_s
    while (status := gateway.ask().status) != 200 and time.monotonic() < until:
        time.sleep(_PAUSE_S)
    expect(status == 200, f"after {2 * _HANG_UPS} of them a request is still answered with {status}")


def the_pieces_of_a_stream_make_an_answer(gateway: Gateway) -> None:
    roles: Counter[str] = Counter()
    text = ""
    for chunk in chunks_of(gateway.stream()):
        for choice in chunk.get("choices", []):
            delta: dict[str, Any] = choice.get("delta") or {}
            roles.update([delta["role"]] if delta.get("role") else [])
            text += delta.get("content") or ""
    expect(set(roles) <= {"assistant"}, f"its roles are {sorted(roles)}")
    expect(bool(text), "there is no text in them")


CASES = (
    a_stream_says_that_it_is_one,
    a_stream_is_utf8,
    each_event_of_a_stream_is_a_chunk_of_one_answer,
    the_pieces_of_a_stream_make_an_answer,
    a_choice_ends_with_one_reason,
    a_stream_ends_with_one_done,
    nothing_comes_after_done,
    counts_come_once_where_they_are_asked_for,
    counts_come_in_the_last_chunk,
    counts_stay_away_where_they_are_not_asked_for,
    options_of_streams_are_refused_without_a_stream,
    what_cannot_be_streamed_is_refused_before_a_stream_begins,
    a_stream_marks_its_own_end,
    a_connection_lives_on_after_a_stream,
    a_caller_that_hangs_up_takes_no_place_with_it,
)
