"""One request on its way through the engine: what it still has to read, what it said, when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from edge_runtime.generation.sampler import Logits, NonFiniteLogits, Sampler
from runtime_server.engine import NOT_FINITE, FinishReason, GenerationJob, TokenEvent
from runtime_server.moments import Moments


@dataclass(eq=False, slots=True)
class Request:
    """The state of one request. Only the engine's thread changes it once it is submitted.

    Attributes:
        moments: When it came, and how far.
        slot: The row of the cache it owns, or `None` while it waits.
        length: Tokens, of the prompt and then of the answer, whose keys and values stand in the slot.
        said: Tokens of the answer so far.
        last_token: The newest of them, still to be fed to the model.
    """

    job: GenerationJob
    moments: Moments
    slot: int | None = None
    length: int = 0
    said: int = 0
    last_token: int = 0
    sampler: Sampler = field(init=False)

    def __post_init__(self) -> None:
        self.sampler = Sampler(self.job.sampling)

    @property
    def unread(self) -> int:
        """Prompt tokens not yet in the cache."""
        return max(0, len(self.job.prompt) - self.length)

    def wanted(self, count: int) -> tuple[int, ...]:
        """Return the places among the next `count` tokens of the prompt after which logits are asked for."""
        return (count - 1,) if count == self.unread else ()

    def take(self, logits: Logits, next_token_at: float) -> TokenEvent:
        """Choose the next token and say what the caller gets.

        Args:
            logits: Shape `[vocabulary]`.
            next_token_at: When another token could be had; past the deadline, this one is the last.
        """
        try:
            token = self.sampler.next(logits)
        except NonFiniteLogits:
            return TokenEvent(finish=FinishReason.ERROR, error=NOT_FINITE)
        self.said += 1
        self.last_token = token
        if token in self.job.stop_tokens:
            return TokenEvent(finish=FinishReason.STOP)
        if self.said >= self.job.max_tokens or self.job.is_late(next_token_at):
            return TokenEvent((token,), FinishReason.LENGTH)
        return TokenEvent((token,))
