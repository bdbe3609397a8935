from __future__ import annotations

from typing import Any

import pytest

from inference_protocol.openai_stream import ChunkFacts, Usage, chunk_facts, read_usage
from inference_protocol.timings import Timings


def chunk(delta: Any = None, finish: Any = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **fields}


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "a"},
        {"reasoning_content": "a"},
        {"reasoning": "a"},
        {"refusal": "a"},
        {"tool_calls": [{"index": 0}]},
        {"function_call": {"name": "f"}},
    ],
)
def test_anything_a_reader_would_see_is_content(delta: dict[str, Any]) -> None:
    assert chunk_facts(chunk(delta)) == ChunkFacts(content=True, tokens_hint=1)


@pytest.mark.parametrize("delta", [{}, {"role": "assistant"}, {"role": "assistant", "content": ""}, {"tool_calls": []}])
def test_a_chunk_without_anything_to_see_is_no_content(delta: dict[str, Any]) -> None:
    assert chunk_facts(chunk(delta)) == ChunkFacts()


def test_a_finish_reason_alone_is_content_and_no_token() -> None:
    assert chunk_facts(chunk(finish="stop")) == ChunkFacts(content=True, finish_reason="stop")


def test_whole_answers_and_completions_are_content() -> None:
    assert chunk_facts({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}).content
    assert chunk_facts({"choices": [{"text": "a"}]}).content


def test_the_chunk_with_usage_and_timings_is_usage_only() -> None:
    facts = chunk_facts(
        {
            "choices": [],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
            "timings": {"queue_ms": 1, "prefill_ms": 2.5, "decode_ms": 3},
        }
    )
    assert facts == ChunkFacts(usage=Usage(5, 2, 4), timings=Timings(1.0, 2.5, 3.0), usage_only=True)


@pytest.mark.parametrize("delta", [{"content": "a"}, {"role": "assistant", "content": ""}])
def test_usage_beside_a_choice_does_not_make_a_chunk_usage_only(delta: dict[str, Any]) -> None:
    assert not chunk_facts(chunk(delta, usage={"prompt_tokens": 1})).usage_only


@pytest.mark.parametrize(
    ("error", "read"), [({"message": "no"}, {"message": "no"}), ("no", {"message": "no"}), ({}, {})]
)
def test_an_error_chunk_is_an_error_and_nothing_else(error: Any, read: dict[str, Any]) -> None:
    assert chunk_facts({**chunk({"content": "a"}), "error": error}) == ChunkFacts(error=read)


@pytest.mark.parametrize("choices", [None, {}, "x", [None], [{"delta": "x"}], [{"delta": None, "message": None}]])
def test_a_malformed_chunk_carries_nothing(choices: Any) -> None:
    assert chunk_facts({"choices": choices, "error": None}) == ChunkFacts()


def test_malformed_counts_are_zero() -> None:
    assert read_usage([]) is None
    assert read_usage({"prompt_tokens": -1, "completion_tokens": "2", "prompt_tokens_details": 3}) == Usage()
    assert read_usage({"prompt_tokens": True}) == Usage()
    assert chunk_facts({"timings": {"queue_ms": -1, "prefill_ms": float("nan"), "decode_ms": "x"}}).timings == Timings()


def test_timings_are_read_as_they_are_written() -> None:
    written = Timings(queue_ms=1.0004, prefill_ms=2.5, decode_ms=3.25).to_wire()
    assert written == {"queue_ms": 1.0, "prefill_ms": 2.5, "decode_ms": 3.25}
    assert Timings.from_wire(written) == Timings(1.0, 2.5, 3.25)
    assert Timings.from_wire("3 ms") is None
