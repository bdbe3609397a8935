"""One answer as it comes into being: a generation's events become text, counts and a reason to end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from inference_protocol.errors import DeadlineExceeded, InternalError
from inference_protocol.timings import Timings
from runtime_server.engine import FinishReason, Generation, TokenEvent, TokenLogprob
from runtime_server.text_stream import TextStream


class GenerationCancelled(Exception):
    """The generation was cancelled before its end."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What one step settled.

    Attributes:
        text: May be none.
        logprobs: Of the tokens whose text has begun to come out by now, where asked for.
        prompt: Log probabilities of the prompt's tokens from its second on, where asked for; they come first.
    """

    text: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt: tuple[TokenLogprob, ...] = ()


class Answer:
    """The answer of one generation.

    Attributes:
        completion_tokens: Tokens generated so far.
        finish_reason: `stop` or `length` once the answer is complete, else `None`.
    """

    def __init__(self, generation: Generation, text: TextStream, *, deadline: float | None) -> None:
        """Begin to read `generation`.

        Args:
            generation: Iterated here and nowhere else.
            text: Fresh.
            deadline: Event-loop seconds by which the first token must have come, or `None`.
        """
        self._generation = generation
        self._events: AsyncIterator[TokenEvent] = aiter(generation)
        self._text = text
        self._deadline = deadline
        # Log probabilities of tokens of which nothing came out yet, with the place in the text where each begins.
        self._held: deque[tuple[int, TokenLogprob]] = deque()
        self.completion_tokens = 0
        self.finish_reason: str | None = None

    @property
    def timings(self) -> Timings:
        """How long each part took."""
        return self._generation.timings

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that were in the cache already."""
        return self._generation.cached_tokens

    async def next(self) -> Piece:
        """Wait for the next step and return what it settled; at the end, all that is left.

        Raises:
            DeadlineExceeded: The deadline passed before the first token came.
            GenerationCancelled: It was cancelled.
            InternalError: The engine failed.
        """
        event = await (anext(self._events) if self.completion_tokens else self._first_event())
        if event.finish is FinishReason.CANCELLED:
            raise GenerationCancelled
        if event.finish is FinishReason.ERROR:
            raise InternalError(f"The engine failed: {event.error or 'it does not say why'}")
        self.completion_tokens += len(event.tokens)
        text = self._read(event)
        if self._text.stopped:
            self.finish_reason = FinishReason.STOP.value
            if event.finish is None:
                await self._end_early()
        elif event.finish is not None:
            text += self._text.close()
            self.finish_reason = event.finish.value
        return Piece(text, self._settled(), event.prompt)

    def _read(self, event: TokenEvent) -> str:
        if not event.logprobs:
            return self._text.feed(event.tokens)
        texts: list[str] = []
        for token, logprob in zip(event.tokens, event.logprobs, strict=True):
            self._held.append((self._text.read, logprob))
            texts.append(self._text.feed((token,)))
        return "".join(texts)

    def _settled(self) -> tuple[TokenLogprob, ...]:
        """Return the log probabilities that can be told by now. Those of a stop string's tokens never can."""
        found: list[TokenLogprob] = []
        is_whole = self.finish_reason is not None and not self._text.stopped
        while self._held and (is_whole or self._held[0][0] < self._text.given):
            found.append(self._held.popleft()[1])
        return tuple(found)

    async def _first_event(self) -> TokenEvent:
        try:
            async with asyncio.timeout_at(self._deadline):
                event = await anext(self._events)
        except TimeoutError:
            raise _too_late() from None
        if event.finish is FinishReason.LENGTH and not event.tokens and self._deadline is not None:
            raise _too_late()  # only the deadline can end an answer before its first token
        return event

    async def _end_early(self) -> None:
        """Stop at a stop string, and wait the one step until the slot is free and the timings are final."""
        self._generation.cancel()
        while (await anext(self._events)).finish is None:
            pass


def _too_late() -> DeadlineExceeded:
    return DeadlineExceeded("The latency budget ran out before the first token.")


class NothingToGenerate:
    """The generation of a request that asked for no tokens: it has ended before it began."""

    timings = Timings()
    cached_tokens = 0

    async def __aiter__(self) -> AsyncIterator[TokenEvent]:
        """Yield the end."""
        yield TokenEvent(finish=FinishReason.LENGTH)

    def cancel(self) -> None:
        """Do nothing: nothing runs."""
