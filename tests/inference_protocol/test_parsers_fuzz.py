"""Whatever bytes come, the protocol's parsers read them or refuse them in our words: never another failure."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_protocol.errors import TidegateError
from inference_protocol.json_body import parse_object
from inference_protocol.openai_chat import parse_chat
from inference_protocol.openai_completion import parse_completion
from inference_protocol.openai_embedding import parse_embedding
from inference_protocol.openai_stream import chunk_facts
from inference_protocol.sse import SseDecoder
from routing_policies.signals.deadline import DeadlineDefaults, parse_deadline
from routing_policies.signals.hints import parse_hints
from routing_policies.signals.label import parse_label_headers

PARSERS: list[Callable[[bytes], Any]] = [parse_chat, parse_completion, parse_embedding]
# What bodies are made of, right or wrong; and values that go wrong somewhere.
FIELDS = (
    "model messages role content type text image_url url input_audio data format tool_calls function name arguments id "
    "tools tool_choice parameters response_format json_schema schema strict stream stream_options include_usage n stop "
    "max_tokens max_completion_tokens temperature top_p top_k min_p seed logprobs top_logprobs logit_bias prompt echo "
    "suffix best_of input encoding_format dimensions user metadata deferrable structured_outputs regex choice grammar"
).split()
WORDS = ["user", "assistant", "system", "tool", "text", "image_url", "function", "auto", "none", "json_schema", "float"]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(WORDS),
    st.sampled_from(["\ud800", "\x00", "data:image/png;base64,////", "é" * 3]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)
BODIES = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=8).map(
    lambda body: {"model": "auto", "messages": [{"role": "user", "content": "x"}], "prompt": "x", "input": "x", **body}
)
FIELD_VALUES = st.one_of(
    st.text(max_size=20),
    st.floats().map(str),
    st.integers().map(str),
    st.sampled_from(["1e400", "-0", "nan", "٣", "1_0", "0x1", "9" * 20 + "H", "public; x", "50%;charging", ","]),
)
STREAM_PIECES = [b"data: ", b"data: [DONE]", b"\n\n", b"\r\n", b"\r", b"id: 1", b"event: x", b":"]
CHUNK_FIELDS = ["choices", "usage", "error", "delta", "model", "timings"]
HEADERS = [
    "x-data-class",
    "x-data-tags",
    "x-latency-budget-ms",
    "x-ttft-budget-ms",
    "grpc-timeout",
    "x-envoy-expected-rq-timeout-ms",
    "x-llm-d-slo-ttft-ms",
    "x-llm-d-slo-tpot-ms",
    "x-stainless-read-timeout",
    "save-data",
    "x-client-network",
    "x-client-battery",
    "ect",
]


def read(parse: Callable[[bytes], Any], raw: bytes) -> None:
    """Read a body and every text of it, as the gateway does."""
    with contextlib.suppress(TidegateError):
        request = parse(raw)
        if hasattr(request, "text_parts"):
            for _ in request.text_parts():
                pass


@pytest.mark.parametrize("parse", [*PARSERS, parse_object])
@settings(max_examples=60)
@given(raw=st.binary(max_size=200) | st.text(max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_read_or_refused(parse: Callable[[bytes], Any], raw: bytes) -> None:
    read(parse, raw)
    read(parse, b'{"model":"auto",' + raw)


@pytest.mark.parametrize("parse", PARSERS)
@settings(max_examples=100)
@given(body=BODIES, cut=st.integers(0, 400) | st.none())
def test_any_json_is_read_or_refused(parse: Callable[[bytes], Any], body: dict[str, Any], cut: int | None) -> None:
    read(parse, json.dumps(body).encode()[:cut])


@settings(max_examples=100)
@given(fields=st.dictionaries(st.sampled_from(HEADERS), FIELD_VALUES, max_size=4))
def test_any_headers_are_read_or_refused(fields: dict[str, str]) -> None:
    for parse in (
        parse_label_headers,
        parse_hints,
        lambda given: parse_deadline(given, received_at=1.0, defaults=DeadlineDefaults()),
    ):
        with contextlib.suppress(TidegateError):
            parse(fields)


@settings(max_examples=80)
@given(
    pieces=st.lists(
        st.binary(max_size=30) | st.sampled_from([b"data: ", b"\n\n", b"\r\n", b"id: 1", b":"]), max_size=12
    )
)
def test_any_stream_is_read_or_refused_however_it_is_cut(pieces: list[bytes]) -> None:
    with contextlib.suppress(TidegateError):
        whole, cut = SseDecoder(), SseDecoder()
        together = list(whole.feed(b"".join(pieces)))
        assert [frame for piece in pieces for frame in cut.feed(piece)] == together


@settings(max_examples=80)
@given(
    chunk=st.dictionaries(
        st.sampled_from(["choices", "usage", "error", "delta", "model", "timings"]), VALUES, max_size=4
    )
)
def test_any_chunk_of_an_answer_is_read_or_refused(chunk: dict[str, Any]) -> None:
    with contextlib.suppress(TidegateError):
        chunk_facts(chunk)
