"""An engine whose tokens come from the test, so that faults and moments can be chosen. It computes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from inference_protocol.engine_steps import EngineStep
from inference_protocol.runtime_state import RuntimeState, RuntimeStatus, ServedModel
from inference_protocol.timings import Timings
from runtime_server.engine import FinishReason, GenerationJob, QueueFull, TokenEvent

MODEL = "tiny"
WINDOW = 256


class ScriptedGeneration:
    def __init__(self, job: GenerationJob, encode: Callable[[str], list[int]]) -> None:
        self.job = job
        self.timings = Timings()
        self.timings_at_end = Timings()  # what is measured is final with the last event, not before
        self.cached_tokens = 0
        self.cancelled = asyncio.Event()
        self.encode = encode
        self._events: asyncio.Queue[TokenEvent] = asyncio.Queue()

    async def __aiter__(self) -> AsyncIterator[TokenEvent]:
        while True:
            event = await self._events.get()
            if event.finish is not None:
                self.timings = self.timings_at_end
            yield event
            if event.finish is not None:
                return

    def cancel(self) -> None:
        if not self.cancelled.is_set():
            self.cancelled.set()
            self.put(TokenEvent(finish=FinishReason.CANCELLED))

    def put(self, event: TokenEvent) -> None:
        self._events.put_nowait(event)

    def say(self, text: str) -> None:
        """Say it, one token a step."""
        for token in self.encode(text):
            self.put(TokenEvent((token,)))

    def end(self, finish: FinishReason = FinishReason.STOP, error: str | None = None) -> None:
        self.put(TokenEvent(finish=finish, error=error))


class ScriptedEngine:
    """Accepts `places` generations at once. `on_submit` may script each as it comes."""

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self.status = RuntimeStatus.STARTING
        self.detail: str | None = "reading the weights"
        self.loaded = asyncio.Event()
        self.loaded.set()
        self.load_error: Exception | None = None
        self.stopped = False
        self.places = 8
        self.slots = 4
        self.abilities: dict[str, Any] = {}
        self.on_submit: Callable[[ScriptedGeneration], None] = lambda _: None
        self.generations: list[ScriptedGeneration] = []
        self.encode = encode
        self._submitted = asyncio.Event()

    async def start(self) -> None:
        await self.loaded.wait()
        if self.load_error is not None:
            raise self.load_error
        self.status, self.detail = RuntimeStatus.READY, None

    async def stop(self) -> None:
        self.stopped = True

    def submit(self, job: GenerationJob) -> ScriptedGeneration:
        if len([g for g in self.generations if not g.cancelled.is_set()]) >= self.places:
            raise QueueFull
        generation = ScriptedGeneration(job, self.encode)
        self.generations.append(generation)
        self._submitted.set()
        self.on_submit(generation)
        return generation

    async def next_generation(self) -> ScriptedGeneration:
        """Wait for the next request to be submitted."""
        await asyncio.wait_for(self._submitted.wait(), 5)
        self._submitted.clear()
        return self.generations[-1]

    def steps(self) -> tuple[EngineStep, ...]:
        return ()

    def state(self) -> RuntimeState:
        model = ServedModel(**{"id": MODEL, "digest": "0" * 64, "window": WINDOW, **self.abilities})
        ready = self.status is RuntimeStatus.READY
        return RuntimeState(status=self.status, slots=self.slots, models=(model,) if ready else (), detail=self.detail)


def says(text: str, finish: FinishReason = FinishReason.STOP) -> Callable[[ScriptedGeneration], None]:
    """Return a script that says `text` to each request and ends."""

    def script(generation: ScriptedGeneration) -> None:
        generation.say(text)
        generation.end(finish)

    return script
