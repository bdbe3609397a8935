"""How long the first token takes, of a prompt that is new, one that a slot still holds, and one after a restart."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.parts.smollm import edge_folder
from edge_runtime.generation.engine import SlotEngine
from edge_runtime.generation.loading import EngineSettings
from inference_protocol.sampling import Sampling
from runtime_server.engine import GenerationJob

PROMPT_TOKENS = 1000


@dataclass(frozen=True, slots=True)
class FirstTokens:
    """Milliseconds to the first token."""

    new: float
    in_a_slot: float
    on_the_disk: float


async def measure(folder: Path, prompt: Sequence[int]) -> FirstTokens:
    """Ask a model the same thing three times, the last time after a restart."""
    with tempfile.TemporaryDirectory() as scratch:
        settings = EngineSettings(folder, "model", slots=2, prefix_folder=Path(scratch) / "prefixes")
        new, in_a_slot = await _first_ms(settings, prompt, times=2)
        [on_the_disk] = await _first_ms(settings, prompt, times=1)
    return FirstTokens(new, in_a_slot, on_the_disk)


async def _first_ms(settings: EngineSettings, prompt: Sequence[int], times: int) -> list[float]:
    engine = SlotEngine(settings)
    await engine.start()
    try:
        found = []
        for _ in range(times):
            began = time.perf_counter()
            async for _ in engine.submit(_job(prompt)):
                found.append((time.perf_counter() - began) * 1000)
        return found
    finally:
        await engine.stop()


def _job(prompt: Sequence[int]) -> GenerationJob:
    greedy = Sampling(temperature=0.0)
    return GenerationJob("bench", tuple(prompt), 1, greedy, stop_tokens=frozenset(), may_be_kept=True)


def main() -> None:
    """Print the three for the default model."""
    prompt = [100 + place * 37 % 40_000 for place in range(PROMPT_TOKENS)]
    found = asyncio.run(measure(edge_folder(), prompt))
    print(f"First token of {PROMPT_TOKENS} tokens: {found.new:.0f} ms new,")
    print(f"{found.in_a_slot:.0f} ms held by a slot, {found.on_the_disk:.0f} ms from the disk after a restart.")


if __name__ == "__main__":
    main()
