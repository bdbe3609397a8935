"""One request on its way through the engine: what it still has to read, what it said, when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from edge_runtime.generation.sampler import Logits, NonFiniteLogits, Sampler
from runtime_server.engine import FinishReason, GenerationJob, GenerationTimings, TokenEvent


@dataclass(eq=False, slots=True)
class Sequence:
    """The state of one request. Only the engine's thread changes it once it is submitted.

    Attributes:
        submitted_at: This and the three moments below, in seconds of the engine's clock; `None` until they come.
        slot: The row of the cache it owns, or `None` while it waits.
        length: Tokens, of the prompt and then of the answer, whose keys and values stand in the slot.
        said: Tokens of the answer so far.
        last_token: The newest of them, still to be fed to the model.
    """

    job: GenerationJob
    submitted_at: float
    started_at: float | None = None
    prefilled_at: float | None = None
    ended_at: float | None = None
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

    def is_late(self, when: float) -> bool:
        """Say whether `when` lies past the deadline."""
        return self.job.deadline is not None and when > self.job.deadline

    def take(self, logits: Logits, next_token_at: float) -> TokenEvent:
        """Choose the next token and say what the caller gets.

        Args:
            logits: Shape `[vocabulary]`.
            next_token_at: When another token could be had; past the deadline, this one is the last.
        """
        try:
            token = self.sampler.next(logits)
        except NonFiniteLogits:
            return TokenEvent(finish=FinishReason.ERROR, error="The model computed values that are not finite.")
        self.said += 1
        self.last_token = token
        if token in self.job.stop_tokens:
            return TokenEvent(finish=FinishReason.STOP)
        if self.said >= self.job.max_tokens or self.is_late(next_token_at):
            return TokenEvent((token,), FinishReason.LENGTH)
        return TokenEvent((token,))

    @property
    def timings(self) -> GenerationTimings:
        """The parts measured so far."""
        return GenerationTimings(
            queue_ms=_ms(self.submitted_at, self.started_at or self.ended_at),
            prefill_ms=_ms(self.started_at, self.prefilled_at or self.ended_at),
            decode_ms=_ms(self.prefilled_at, self.ended_at),
        )


def _ms(begin: float | None, end: float | None) -> float:
    return 0.0 if begin is None or end is None else (end - begin) * 1000
