"""The seam between the front and whatever generates tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from inference_protocol.engine_steps import EngineStep
from inference_protocol.runtime_state import RuntimeState
from inference_protocol.sampling import Sampling
from inference_protocol.timings import Timings
from runtime_server.structure.constraint import Constraint

# A step that is still running so long after `Engine.stop` is left to itself.
LONGEST_STEP_S = 10.0
# What a caller is told, whichever engine it was.
RUN_FAILED = "The model could not be run on this request."
NOT_FINITE = "The model computed values that are not finite."
NOTHING_ALLOWED = "The form that the answer must have leaves no token to go on with."


class QueueFull(Exception):
    """Every slot and every place in the queue is taken."""


class NotReady(Exception):
    """An engine cannot take a job now: its state does not say `ready`, or the version it is meant for is gone."""


class FinishReason(StrEnum):
    """Why generation ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class GenerationJob:
    """What an engine is asked for.

    Attributes:
        prompt: Token ids, at least one, all within the vocabulary.
        max_tokens: Most tokens to generate; prompt and this fit the window. 0 only where the prompt's own log
            probabilities are wanted.
        stop_tokens: Ids that end the answer and are not part of it.
        logprobs: How many of the likeliest tokens to tell beside each token, which then has its log probability; `None`
            tells nothing.
        prompt_logprobs: Whether to tell the same of the prompt's tokens.
        constraint: The form that the answer must have, at its beginning; nobody else uses it.
        deadline: Event-loop seconds by which to stop with `LENGTH`, or `None`.
        cache_salt: Prefixes are shared only among equal salts.
        may_be_kept: Whether what the model made of the prompt may be written to the disk, for prompts that begin alike.
        version: Digest of the model that the prompt was made for, where an engine serves more than one in its life.
    """

    request_id: str
    prompt: tuple[int, ...]
    max_tokens: int
    sampling: Sampling
    stop_tokens: frozenset[int]
    logprobs: int | None = None
    prompt_logprobs: bool = False
    constraint: Constraint | None = None
    deadline: float | None = None
    cache_salt: str = ""
    may_be_kept: bool = False
    version: str = ""

    def is_late(self, when: float) -> bool:
        """Say whether `when` lies past the deadline."""
        return self.deadline is not None and when > self.deadline


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """How likely the model found a token where it stands.

    Attributes:
        logprob: Natural logarithm of its probability.
        top: The likeliest tokens at its place and theirs, likeliest first.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """Tokens that came out of one step, or the end.

    Attributes:
        tokens: New token ids, in order; empty only on the event that ends a generation without one.
        finish: Set on the last event.
        error: For `FinishReason.ERROR`: one sentence without content.
        logprobs: Of these tokens, where the job asks for them.
        prompt: Log probabilities of the prompt's next tokens, from its second on; where asked for, all of them have
            come before the answer's first token.
    """

    tokens: tuple[int, ...] = ()
    finish: FinishReason | None = None
    error: str | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt: tuple[TokenLogprob, ...] = ()


class Generation(Protocol):
    """One running request. Iterate it to its end, or cancel it; either frees its slot."""

    def __aiter__(self) -> AsyncIterator[TokenEvent]:
        """Yield events until one carries `finish`."""
        ...

    def cancel(self) -> None:
        """Stop within one step, whether queued, reading the prompt or generating. Safe to call twice."""
        ...

    @property
    def timings(self) -> Timings:
        """What has been measured so far; final once the last event came."""
        ...

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that were in the cache already; final once the last event came."""
        ...


class Engine(Protocol):
    """Generates tokens for several requests at once, never mixing them."""

    async def start(self) -> None:
        """Load the model. `state()` says `starting` meanwhile; nothing is submitted until it is done."""
        ...

    async def stop(self) -> None:
        """Cancel what runs and free the model."""
        ...

    def submit(self, job: GenerationJob) -> Generation:
        """Admit a request. It is asked only while `state()` says `ready`: `Lifecycle` turns everybody else away.

        Raises:
            QueueFull: Every slot and every place in the queue is taken.
            NotReady: `state()` does not say `ready`, or the job's version is served no longer.
        """
        ...

    def steps(self) -> Sequence[EngineStep]:
        """Return what was done lately, oldest first; nothing where an engine does not tell."""
        ...

    def state(self) -> RuntimeState:
        """Return load and speed as they are now; cheap enough to be polled."""
        ...
