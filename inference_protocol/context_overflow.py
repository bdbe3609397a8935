"""Telling from a server's error that the prompt is too long for it. Each server says it in words of its own.

A wrong guess is cheap in one direction only: an error that is taken for an overflow is asked again at a larger window,
one that is missed is told to the caller as a wrong request. So codes count first, and of sentences only those that
name both a length and a limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
# By the server that was read for it; each either names the window or can do without.
_SENTENCES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"maximum (?:context|model) length (?:of|is) (?:only )?(?P<window>\d+)",  # OpenAI, vLLM, LiteLLM
        r"max_model_len\D{0,40}(?P<window>\d+)",  # vLLM, when the prompt alone passes it
        r"longer than the model'?s context length \((?P<window>\d+)",  # SGLang
        r"exceeds? the (?:available|model'?s|maximum) context (?:size|length|window)(?:\D{0,20}(?P<window>\d+))?",
        r"must be <= (?P<window>\d+)\. Given: \d+ `inputs` tokens",  # text-generation-inference
        r"prompt is too long: \d+ tokens > (?P<window>\d+)",  # Anthropic's proxies
        r"input (?:token count|length) \D{0,20}\d+\D{0,40}exceeds\D{0,60}(?P<window>\d+)",  # Gemini's, Bedrock's
    )
)
_MAX_CHARS = 2000  # of a message that is looked at


@dataclass(frozen=True, slots=True)
class Overflow:
    """The prompt, or prompt and answer together, do not fit.

    Attributes:
        window: Tokens of the window, where the error names it.
    """

    window: int | None = None


def read_overflow(error: Mapping[str, Any]) -> Overflow | None:
    """Return what a server's error object says of its window, or `None` where it is about something else."""
    message = error.get("message")
    text = message[:_MAX_CHARS] if isinstance(message, str) else ""
    for sentence in _SENTENCES:
        found = sentence.search(text)
        if found is not None:
            window = found["window"]
            return Overflow(int(window) if window is not None else _count(error.get("n_ctx")))
    if error.get("code") in _CODES or error.get("type") in _CODES:
        return Overflow(_count(error.get("n_ctx")))
    return None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
