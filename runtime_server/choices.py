"""The answers of one request, side by side: `n` of them, to one prompt or to each of several."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from inference_protocol.timings import Timings
from runtime_server.answer import Answer, Piece
from runtime_server.engine import GenerationJob

Begin = Callable[[GenerationJob], Answer]


class Choices:
    """Begins answers, as many at once as can run, and reads them as they come.

    Attributes:
        answers: Those begun, by index.
    """

    def __init__(self, jobs: Sequence[GenerationJob], begin: Begin, *, per_prompt: int, at_once: int) -> None:
        """Begin the first ones.

        Args:
            jobs: By index; those of one prompt follow each other.
            begin: Has an answer generated.
            per_prompt: Answers to each prompt.
            at_once: Most that are generated at a time; the next begins when one ends.

        Raises:
            TidegateError: They cannot be begun.
        """
        self.answers: list[Answer] = []
        self._jobs = jobs
        self._begin = begin
        self._per_prompt = per_prompt
        self._waiting: dict[asyncio.Task[Piece], int] = {}
        for _ in jobs[:at_once]:
            self._begin_next()

    def finished(self) -> bool:
        """Whether every answer is complete."""
        return len(self.answers) == len(self._jobs) and all(answer.finish_reason for answer in self.answers)

    @property
    def completion_tokens(self) -> int:
        """Tokens generated so far, of all answers."""
        return sum(answer.completion_tokens for answer in self.answers)

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that were in the cache already: of each prompt, those that all its answers found there."""
        found = [answer.cached_tokens for answer in self.answers]
        return sum(min(found[at : at + self._per_prompt]) for at in range(0, len(found), self._per_prompt))

    @property
    def timings(self) -> Timings:
        """How long each part took, of the answer that it took longest for."""
        found = [answer.timings for answer in self.answers]
        return Timings(
            max((each.queue_ms for each in found), default=0.0),
            max((each.prefill_ms for each in found), default=0.0),
            max((each.decode_ms for each in found), default=0.0),
        )

    async def next(self) -> list[tuple[int, Piece]]:
        """Wait for what comes next, of any answer; each piece with its answer's index.

        Raises:
            TidegateError: One of them failed, and with it the request.
            GenerationCancelled: They were cancelled.
        """
        if len(self._jobs) == 1:
            return [(0, await self.answers[0].next())]
        if not self._waiting:
            for index in range(len(self.answers)):
                self._listen(index)
        done, _ = await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)
        pieces = [(self._waiting.pop(task), task.result()) for task in list(self._waiting) if task in done]
        for index, _ in pieces:
            if self.answers[index].finish_reason is None:
                self._listen(index)
            elif len(self.answers) < len(self._jobs):
                self._begin_next()
                self._listen(len(self.answers) - 1)
        return pieces

    def close(self) -> None:
        """Stop listening."""
        for task in self._waiting:
            task.cancel()

    def _begin_next(self) -> None:
        self.answers.append(self._begin(self._jobs[len(self.answers)]))

    def _listen(self, index: int) -> None:
        self._waiting[asyncio.create_task(self.answers[index].next())] = index
