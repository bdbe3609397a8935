from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_protocol.errors import UpstreamProtocol
from inference_protocol.sse import SseDecoder, SseFrame, encode_data

pieces = st.sampled_from(
    [
        b"data: x",
        b"data:",
        b"data",
        b": ping",
        b"event: end",
        b"id: 1",
        b"\n",
        b"\r\n",
        b"\r",
        b"\n\n",
        b"\xef\xbb\xbf",
        "é€😀".encode(),
    ]
)
streams = st.lists(pieces, max_size=14).map(b"".join)


def decode(stream: bytes, cuts: Iterable[int] = (), decoder: SseDecoder | None = None) -> list[SseFrame]:
    decoder = decoder or SseDecoder()
    ends = [*cuts, len(stream)]
    chunks = [stream[start:end] for start, end in pairwise([0, *ends])]
    return [frame for chunk in chunks for frame in decoder.feed(chunk)] + decoder.close()


@given(streams, st.data())
def test_any_chunking_gives_the_same_frames_as_one_piece(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    assert decode(stream, cuts) == decode(stream)
    assert decode(stream, range(len(stream))) == decode(stream)


@given(streams)
def test_no_byte_of_a_stream_is_lost(stream: bytes) -> None:
    kept = b"".join(frame.raw for frame in decode(stream))
    assert stream.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n") == kept.rstrip(b"\r\n")


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_end_in_any_of_the_three_ways(end: bytes) -> None:
    stream = end.join([b"event: a", b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])
    assert [(frame.event, frame.data) for frame in decode(stream)] == [("a", b"1\n2"), (None, b"3")]


@pytest.mark.parametrize(
    ("raw", "data"),
    [
        (b": keep-alive\n\n", None),
        (b"data\n\n", b""),
        (b"data:x\n\n", b"x"),
        (b"data:  x \n\n", b" x "),
        (b"data: a: b\n\n", b"a: b"),
        (b"database: x\n\n", None),
    ],
)
def test_a_field_is_read_as_the_standard_says(raw: bytes, data: bytes | None) -> None:
    assert [frame.data for frame in decode(raw)] == [data]


def test_a_byte_order_mark_is_taken_off_however_it_is_cut() -> None:
    stream = b"\xef\xbb\xbfdata: x\n\n"
    assert [frame.data for frame in decode(stream, [1, 2])] == [b"x"]


def test_a_character_cut_between_chunks_arrives_whole() -> None:
    stream = encode_data("😀".encode())
    assert [frame.data for frame in decode(stream, [7, 8, 9])] == ["😀".encode()]


def test_an_event_without_its_last_blank_line_is_returned_at_the_end() -> None:
    assert [frame.data for frame in decode(b"data: a\n\ndata: b")] == [b"a", b"b"]


def test_only_the_end_marker_is_done() -> None:
    assert [frame.is_done for frame in decode(b"data: [DONE]\n\ndata: {}\n\n: x\n\n")] == [True, False, False]


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_an_event_past_the_limit_ends_the_stream(step: int) -> None:
    stream = b"data: " + b"x" * 64 + b"\n\n"
    cuts = range(0, len(stream), step)
    with pytest.raises(UpstreamProtocol, match="larger than 64 bytes"):
        decode(stream, cuts, SseDecoder(max_frame_bytes=64))


def test_many_events_in_one_chunk_may_pass_the_limit_together() -> None:
    assert len(decode(b"data: x\n\n" * 100, decoder=SseDecoder(max_frame_bytes=64))) == 100


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n", b"\r"])
def test_a_last_frame_without_its_blank_line_is_closed_so_that_nothing_runs_into_it(ending: bytes) -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: last" + ending) == []
    assert [frame.raw for frame in decoder.close()] == [b"data: last\n\n"]
