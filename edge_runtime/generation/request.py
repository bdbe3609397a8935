"""One request on its way through the engine: what it still has to read, what it said, when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from runtime_server.choosing.logprobs import logprobs_of
from runtime_server.choosing.row import NothingAllowed, RowChooser
from runtime_server.choosing.sampler import Logits, NonFiniteLogits
from runtime_server.engine import NOT_FINITE, NOTHING_ALLOWED, FinishReason, GenerationJob, TokenEvent, TokenLogprob
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
        cached: Tokens of the prompt that needed no reading.
    """

    job: GenerationJob
    moments: Moments
    slot: int | None = None
    length: int = 0
    said: int = 0
    last_token: int = 0
    cached: int = 0
    chooser: RowChooser = field(init=False)
    _prompt_logprobs: list[TokenLogprob] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chooser = RowChooser(self.job)

    @property
    def unread(self) -> int:
        """Prompt tokens not yet in the cache."""
        return max(0, len(self.job.prompt) - self.length)

    def wanted(self, count: int) -> Sequence[int]:
        """Return the places among the next `count` tokens of the prompt after which logits are asked for."""
        if self.job.prompt_logprobs:
            return range(count)
        return (count - 1,) if count == self.unread else ()

    def reuse(self, count: int) -> None:
        """Take note that the next `count` tokens of the prompt stand in the slot without having been read."""
        self.length += count
        self.cached += count

    def read(self, count: int, logits: Logits) -> None:
        """Take note that the next `count` tokens of the prompt stand in the slot.

        Args:
            count: How many.
            logits: Shape `[wanted, vocabulary]`, after the places that `wanted` named.
        """
        if self.job.prompt_logprobs:
            following = self.job.prompt[self.length + 1 : self.length + 1 + count]
            self._prompt_logprobs += logprobs_of(logits[: len(following)], following, self.job.logprobs or 0)
        self.length += count

    def take(self, logits: Logits, allowed: NDArray[np.bool_] | None, next_token_at: float) -> TokenEvent:
        """Choose the next token and say what the caller gets.

        Args:
            logits: Shape `[vocabulary]`.
            allowed: Shape `[vocabulary]`, where the answer has a form.
            next_token_at: When another token could be had; past the deadline, this one is the last.
        """
        prompt, self._prompt_logprobs = tuple(self._prompt_logprobs), []
        if self.job.max_tokens == 0:
            return TokenEvent(finish=FinishReason.LENGTH, prompt=prompt)
        try:
            token, logprobs = self.chooser.next(logits, allowed)
        except NonFiniteLogits:
            return TokenEvent(finish=FinishReason.ERROR, error=NOT_FINITE)
        except NothingAllowed:
            return TokenEvent(finish=FinishReason.ERROR, error=NOTHING_ALLOWED)
        self.said += 1
        self.last_token = token
        if token in self.job.stop_tokens:
            return TokenEvent(finish=FinishReason.STOP, prompt=prompt)
        return TokenEvent((token,), self._end_after(next_token_at), logprobs=logprobs, prompt=prompt)

    def _end_after(self, next_token_at: float) -> FinishReason | None:
        if self.job.constraint is not None and self.job.constraint.is_complete:
            return FinishReason.STOP
        late = self.said >= self.job.max_tokens or self.job.is_late(next_token_at)
        return FinishReason.LENGTH if late else None
