"""A target's answer as the gateway holds it: what has been learnt of it, and its bytes, whole or as they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Protocol

from inference_protocol.execution import Execution
from inference_protocol.openai_stream import ChunkFacts, Usage
from inference_protocol.timings import Timings

_JSON = MappingProxyType({"content-type": "application/json"})


class AnswerFacts:
    """What has been learnt of an answer so far; settled when it ends.

    Attributes:
        frames: Of a stream, those that carried data; while they come, the target works.
        chunks: Frames that carried visible text, as a stand-in for tokens where no usage is reported.
        unreadable: Frames that were not JSON and were left out.
        findings: Kind to number of what was found in it, where a policy has answers read.
        execution: What computed it, where the target is a runtime of ours and says so.
    """

    __slots__ = ("chunks", "execution", "findings", "finish_reason", "frames", "timings", "unreadable", "usage")

    def __init__(self) -> None:
        """Start knowing nothing."""
        self.frames = 0
        self.chunks = 0
        self.unreadable = 0
        self.findings: Counter[str] = Counter()
        self.finish_reason: str | None = None
        self.usage: Usage | None = None
        self.timings: Timings | None = None
        self.execution: Execution | None = None

    def add(self, facts: ChunkFacts) -> None:
        """Take in one chunk."""
        self.chunks += facts.tokens_hint
        self.finish_reason = facts.finish_reason or self.finish_reason
        self.usage = facts.usage or self.usage
        self.timings = facts.timings or self.timings


class BufferedAnswer:
    """An answer that was not streamed: complete, or not there at all."""

    def __init__(self, body: bytes, facts: AnswerFacts, head: Mapping[str, str] = _JSON) -> None:
        """Hold the whole body; `head` says what it is, by header fields."""
        self.body = body
        self.head = head
        self.facts = facts

    async def aclose(self) -> None:
        """Nothing is held open."""


class StreamedAnswer(Protocol):
    """An answer that comes in pieces, from its first content on."""

    facts: AnswerFacts

    def relay(self) -> AsyncIterator[bytes]:
        """Yield the bytes to send on.

        Raises:
            UpstreamError: The answer breaks off.
        """
        ...

    async def aclose(self) -> None:
        """Let the connection go; before the end of the answer this is what tells the target to stop."""
        ...


Answer = StreamedAnswer | BufferedAnswer
