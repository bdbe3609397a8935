"""What one event of an OpenAI chat stream, or a whole answer, amounts to: content, usage, an end, an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inference_protocol.timings import Timings

_FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "function_call", "content_filter"})
_MAX_COUNT = 1 << 53  # more than any JSON reader keeps exactly
_CONTENT_KEYS = ("content", "reasoning_content", "reasoning", "refusal", "tool_calls", "function_call")


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the target reported them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ChunkFacts:
    """What a chunk carries.

    Attributes:
        content: Something a reader would see, or a finish reason: the first such chunk commits the answer.
        tokens_hint: 1 where the chunk carried visible text, for rates when no usage is reported.
        error: The target's error object, where the chunk is one.
        usage_only: Nothing but usage: relayed only to callers who asked for it.
    """

    content: bool = False
    tokens_hint: int = 0
    finish_reason: str | None = None
    usage: Usage | None = None
    timings: Timings | None = None
    error: Mapping[str, Any] | None = None
    usage_only: bool = False


def chunk_facts(chunk: Mapping[str, Any]) -> ChunkFacts:
    """Classify one parsed chunk of a stream (`delta`) or a whole answer (`message`)."""
    error = chunk.get("error")
    if error is not None:
        return ChunkFacts(error=error if isinstance(error, Mapping) else {"message": str(error)})
    visible = 0
    finish: str | None = None
    found = chunk.get("choices")
    choices = found if isinstance(found, list) else []
    for choice in choices:
        if not isinstance(choice, Mapping):
            continue
        part = choice.get("delta") or choice.get("message") or {}
        if isinstance(part, Mapping) and any(part.get(key) for key in _CONTENT_KEYS):
            visible = 1
        if choice.get("text"):
            visible = 1
        finish = _finish_reason(choice.get("finish_reason")) or finish
    usage = read_usage(chunk.get("usage"))
    return ChunkFacts(
        content=bool(visible or finish),
        tokens_hint=visible,
        finish_reason=finish,
        usage=usage,
        timings=Timings.from_wire(chunk.get("timings")),
        usage_only=usage is not None and not choices,
    )


def read_usage(value: Any) -> Usage | None:
    """Read a `usage` object; anything malformed counts as absent."""
    if not isinstance(value, Mapping):
        return None
    details = value.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    return Usage(_count(value.get("prompt_tokens")), _count(value.get("completion_tokens")), _count(cached))


def _finish_reason(value: Any) -> str | None:
    """A word of the protocol's; what else a target says there could be anything, and goes into records."""
    if not value:
        return None
    return value if isinstance(value, str) and value in _FINISH_REASONS else "other"


def _count(value: Any) -> int:
    return min(value, _MAX_COUNT) if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
