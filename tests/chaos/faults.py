"""Upstreams that misbehave over real sockets, each by a name, with what a caller must see of it.

Most of these have been reported against gateways of this kind. A fault is what `tests.support.scripted_runtime` has
the target do with one request; the expectation is for a caller whom only this target may answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.chaos.acts import (
    broken_chunks_after_content,
    cuts,
    document,
    error_event,
    head,
    never,
    only_pings_after_content,
    pours_without_a_newline,
    raw,
    sends_heads_without_end,
    stream,
    trickles,
    zipped,
)
from tests.support.scripted_runtime import DONE_EVENT, MODEL, USAGE, USAGE_EVENT, Answer, event, says

STOP = event(finish_reason="stop")
WHOLE = {
    "id": "c1",
    "object": "chat.completion",
    "model": MODEL,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}],
    "usage": USAGE,
}


@dataclass(frozen=True)
class Fault:
    """One way to misbehave.

    Attributes:
        name: What the target does, as a clause.
        act: Does it.
        streams: Whether the request asks for a stream.
        status: What the caller gets.
        code: Of the error: in the answer, or in the last event of a stream that had begun.
        text: What a stream had said before; `None` where it never began.
        settings: Of the gateway, so that the test need not wait.
    """

    name: str
    act: Answer
    streams: bool
    status: int
    code: str | None
    text: str | None = None
    settings: dict[str, object] = field(default_factory=dict)

    @property
    def is_seen_by_the_caller_only(self) -> bool:
        """Whether content had come, so that nobody else can be asked."""
        return self.text is not None or self.code is None


SHORT = {"timeouts": {"first_content_s": 0.4, "total_s": 0.6, "idle_s": 0.2}}
FORTY = [event(content="w ") for _ in range(40)]
PAGE = b"<!doctype html><title>Please log in</title>"
JSON = json.dumps(WHOLE).encode()

BEFORE_CONTENT: Sequence[Fault] = (
    Fault("hangs up before the head", cuts, True, 502, "upstream_cut"),
    Fault("hangs up after the head", stream(cut=True), True, 502, "upstream_cut"),
    Fault("ends after its role", stream(event(role="assistant")), True, 502, "upstream_cut"),
    Fault("ends with done alone", stream(event(role="assistant") + DONE_EVENT), True, 502, "upstream_cut"),
    Fault("never answers", never, True, 504, "upstream_timed_out", settings=SHORT),
    Fault(
        "never says anything",
        stream(event(role="assistant"), stall=True),
        True,
        504,
        "upstream_timed_out",
        settings=SHORT,
    ),
    Fault("pings for ever", stream(*[b": ping\n\n" * 60] * 5), True, 502, "upstream_protocol"),
    Fault("sends an error event first", stream(event(role="assistant"), error_event()), True, 502, "upstream_refused"),
    Fault("sends garbage for events", stream(*[b"data: {oops\n\n"] * 9), True, 502, "upstream_protocol"),
    Fault("sends a gigabyte without a newline", pours_without_a_newline, True, 502, "upstream_protocol"),
    Fault("answers a stream with one document", document(JSON), True, 502, "upstream_protocol"),
    Fault(
        "puts an error in the place of a stream",
        document(b'{"error": {"message": "no"}}'),
        True,
        502,
        "upstream_refused",
    ),
    Fault("answers with the page of a captive portal", document(PAGE, kind="text/html"), True, 502, "upstream_captive"),
    Fault("hangs up before the head of a document", cuts, False, 502, "upstream_cut"),
    Fault(
        "sends half a document",
        raw(head(200, "application/json", "content-length: 999") + JSON[:40]),
        False,
        502,
        "upstream_cut",
    ),
    Fault(
        "stalls in its document",
        raw(head(200, "application/json", "content-length: 999") + JSON[:40], then_close=False),
        False,
        504,
        "upstream_timed_out",
        settings=SHORT,
    ),
    Fault("sends a document that is cut but closed", document(JSON[:40]), False, 502, "upstream_protocol"),
    Fault("sends nothing for a document", document(b""), False, 502, "upstream_protocol"),
    Fault("sends null for a document", document(b"null"), False, 502, "upstream_protocol"),
    Fault("sends a document without a choice", document(b'{"choices": []}'), False, 502, "upstream_protocol"),
    Fault("says 200 and means an error", document(b'{"error": {"message": "no"}}'), False, 502, "upstream_refused"),
    Fault(
        "sends the page of a captive portal for a document",
        document(PAGE, kind="text/html"),
        False,
        502,
        "upstream_captive",
    ),
    Fault(
        "redirects to a metadata address",
        document(b"", "location: http://169.254.169.254/latest/", status=307),
        False,
        502,
        "upstream_refused",
    ),
    Fault(
        "redirects to this very machine",
        document(b"", "location: http://127.0.0.1:9/", status=302),
        False,
        502,
        "upstream_refused",
    ),
    Fault("claims more compressed bytes than there are", zipped(JSON, 40), False, 502, "upstream_cut"),
    Fault("claims fewer compressed bytes than there are", zipped(JSON, -30), False, 502, "upstream_protocol"),
    Fault("compresses with what nobody knows", document(JSON, "content-encoding: br"), False, 502, "upstream_protocol"),
    Fault(
        "names two lengths",
        raw(head(200, "application/json", f"content-length: {len(JSON)}", "content-length: 5") + JSON),
        False,
        502,
        "upstream_protocol",
    ),
    Fault(
        "sends a header of a megabyte",
        raw(head(200, "application/json", "x-much: " + "y" * (1 << 20), f"content-length: {len(JSON)}") + JSON),
        False,
        502,
        "upstream_protocol",
    ),
    Fault("speaks another protocol", raw(b"SSH-2.0-OpenSSH_9.6\r\n"), False, 502, "upstream_protocol"),
    Fault(
        "sends chunks without a length",
        raw(head(200, "application/json", "transfer-encoding: chunked") + b"zz\r\nxx\r\n"),
        False,
        502,
        "upstream_protocol",
    ),
    Fault("says continue for ever", sends_heads_without_end, False, 504, "upstream_timed_out", settings=SHORT),
    Fault("is out of order", document(b'{"error": {"message": "broken"}}', status=500), False, 502, "upstream_refused"),
    Fault("is busy and says no more", document(b"", status=429), False, 503, "upstream_busy"),
    Fault(
        "is busy for longer than anybody waits",
        document(b"{}", "retry-after: 30", status=503),
        False,
        503,
        "upstream_busy",
    ),
    Fault(
        "does not accept our credential",
        document(b'{"error": {"message": "who?"}}', status=401),
        False,
        502,
        "upstream_refused",
    ),
    Fault("does not know the path", document(b'{"detail": "Not Found"}', status=404), False, 502, "upstream_refused"),
    Fault("has no content", raw(b"HTTP/1.1 204 No Content\r\n\r\n"), False, 502, "upstream_refused"),
)

AFTER_CONTENT: Sequence[Fault] = (
    Fault("hangs up after forty of sixty events", stream(*FORTY, cut=True), True, 200, "upstream_cut", "w " * 40),
    Fault("ends after forty of sixty events", stream(*FORTY), True, 200, "upstream_cut", "w " * 40),
    Fault(
        "falls silent after its first word",
        stream(event(content="Once"), stall=True),
        True,
        200,
        "upstream_cut",
        "Once",
        SHORT,
    ),
    Fault("only pings after its first word", only_pings_after_content, True, 200, "upstream_cut", "Once", SHORT),
    Fault("trickles an event byte by byte", trickles, True, 200, "upstream_cut", "Once", SHORT),
    Fault("breaks its chunks after its first word", broken_chunks_after_content, True, 200, "upstream_cut", "Once"),
    Fault(
        "sends an error after its first word",
        stream(event(content="Once"), error_event("insufficient_quota"), pause_s=0.3),
        True,
        200,
        "upstream_refused",
        "Once",
    ),
    Fault(
        "sends garbage after its first word",
        stream(event(content="Once"), *[b"data: {oops\n\n"] * 9, pause_s=0.3),
        True,
        200,
        "upstream_protocol",
        "Once",
    ),
    Fault(
        "sends a gigabyte after its first word",
        stream(event(content="Once"), b"data: " + b"x" * (2 << 20), pause_s=0.3),
        True,
        200,
        "upstream_protocol",
        "Once",
    ),
    Fault(
        "talks for ever",
        stream(*[event(content="w ")] * 3, stall=True),
        True,
        200,
        "upstream_timed_out",
        "w w w ",
        {"timeouts": {"total_s": 0.3}},
    ),
)

HARMLESS: Sequence[Fault] = (
    Fault(
        "sends everything in one packet",
        stream(event(role="assistant") + event(content="ab") * 400 + STOP + DONE_EVENT),
        True,
        200,
        None,
        "ab" * 400,
    ),
    Fault(
        "sends one garbled event among good ones",
        stream(event(content="a"), b'data: {"choices":[{"delta":\n\n', event(content="b"), STOP, DONE_EVENT),
        True,
        200,
        None,
        "ab",
    ),
    Fault("leaves out done", stream(event(content="ab"), STOP), True, 200, None, "ab"),
    Fault("leaves out the last blank line", stream(event(content="ab"), STOP + b"data: [DONE]"), True, 200, None, "ab"),
    Fault("says done twice", stream(event(content="ab"), STOP + DONE_EVENT * 2), True, 200, None, "ab"),
    Fault(
        "goes on after done",
        stream(event(content="ab"), STOP + DONE_EVENT + event(content="c") + error_event()),
        True,
        200,
        None,
        "ab",
    ),
    Fault(
        "sends events without a space",
        stream((event(content="ab") + STOP + DONE_EVENT).replace(b"data: ", b"data:")),
        True,
        200,
        None,
        "ab",
    ),
    Fault(
        "ends lines as Windows does",
        stream((event(content="ab") + STOP + DONE_EVENT).replace(b"\n", b"\r\n")),
        True,
        200,
        None,
        "ab",
    ),
    Fault(
        "comments on everything",
        stream(b": hi\n\n" + event(content="a"), b": hi\n\n", event(content="b") + STOP + DONE_EVENT),
        True,
        200,
        None,
        "ab",
    ),
    Fault(
        "sends empty choices",
        stream(b'data: {"choices":[]}\n\n', event(content="ab") + STOP + DONE_EVENT),
        True,
        200,
        None,
        "ab",
    ),
    Fault(
        "thinks before it speaks",
        stream(event(reasoning_content="hm"), event(content="ab") + STOP + DONE_EVENT),
        True,
        200,
        None,
        "ab",
    ),
    Fault("compresses though nobody asked", zipped(JSON, 0), False, 200, None),
    Fault("closes after each answer", document(JSON, "connection: close"), False, 200, None),
)

USAGE_VARIANTS = {
    "in an event without choices": [event(content="a"), STOP, USAGE_EVENT],
    "in an event with an empty choice": [
        event(content="a"),
        STOP,
        b'data: {"choices":[{"index":0,"delta":{}}],"usage":' + json.dumps(USAGE).encode() + b"}\n\n",
    ],
    "in the event that finishes": [
        event(content="a"),
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":'
        + json.dumps(USAGE).encode()
        + b"}\n\n",
    ],
    "null in every other event": [
        event(content="a").replace(b'"choices"', b'"usage":null,"choices"'),
        STOP.replace(b'"choices"', b'"usage":null,"choices"'),
        USAGE_EVENT,
    ],
    "nowhere": [event(content="a"), STOP],
}

fine = says("fine")
