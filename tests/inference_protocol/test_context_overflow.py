"""The words in which servers say that a prompt is too long, and words that only look like it."""

from __future__ import annotations

import pytest

from inference_protocol.context_overflow import Overflow, read_overflow


@pytest.mark.parametrize(
    ("error", "window"),
    [
        (
            {
                "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in "
                "9000 tokens. Please reduce the length of the messages.",
                "code": "context_length_exceeded",
            },
            8192,
        ),
        (
            {
                "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens "
                "(4500 in the messages, 500 in the completion).",
                "type": "BadRequestError",
                "code": 400,
            },
            4096,
        ),
        ({"message": "The decoder prompt (length 9000) is longer than the maximum model length of 8192."}, 8192),
        (
            {"message": "The input (9000 tokens) is longer than the model's context length (8192 tokens)."},
            8192,
        ),
        (
            {
                "message": "the request exceeds the available context size. try increasing the context size",
                "type": "exceed_context_size_error",
                "n_ctx": 2048,
                "n_prompt_tokens": 3000,
            },
            2048,
        ),
        ({"message": "`inputs` must have less", "code": "context_length_exceeded"}, None),
        (
            {"message": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 512"},
            4096,
        ),
        ({"message": "prompt is too long: 210000 tokens > 200000 maximum"}, 200000),
        ({"message": "Only `edge` can answer this request", "code": "context_length_exceeded"}, None),
    ],
)
def test_an_overflow_is_recognised_whoever_says_it(error: dict[str, object], window: int | None) -> None:
    assert read_overflow(error) == Overflow(window)


@pytest.mark.parametrize(
    "error",
    [
        {"message": "temperature must be at most 2", "code": "invalid_value"},
        {"message": "max_tokens must be a number"},
        {"message": "Rate limit reached: 8192 tokens per minute", "code": "rate_limit_exceeded"},
        {"message": "context is missing"},
        {"message": None, "code": None},
        {},
    ],
)
def test_other_errors_are_not_taken_for_one(error: dict[str, object]) -> None:
    assert read_overflow(error) is None
