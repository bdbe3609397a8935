"""How fast a model is here, on the engine that serves it, beside what memory allows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.generation.engine import SlotEngine
from edge_runtime.generation.genai_config import read_genai_config
from edge_runtime.generation.loading import EngineSettings
from inference_protocol.runtime_state import RuntimeState
from inference_protocol.sampling import Sampling
from runtime_server.engine import GenerationJob

_SLOTS = 8
# Prompts are read long, as they come. Answers follow a short one: behind a long one each token reads, beside the
# weights, a cache that the ceiling does not count (46 KB a token of the default model's context).
_LONG_PROMPT, _SHORT_PROMPT, _ANSWER = 512, 16, 128
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Speed:
    """What was found.

    Attributes:
        state: Of the engine, with the milliseconds of a decode step by its rows.
        bytes_per_token: Of weights that one decode step reads.
        tokens_per_s: Of one request alone behind a short prompt, from its second token to its last.
        prefill_tokens_per_s: Of a prompt of some hundred tokens.
    """

    state: RuntimeState
    bytes_per_token: int
    tokens_per_s: float
    prefill_tokens_per_s: float


def measure_speed(folder: Path, threads: int | None) -> Speed:
    """Load a model, let it answer, and unload it.

    Raises:
        ModelMissing: The folder holds no complete model.
        ModelDamaged: A file is not what the manifest says.
        ModelUnsupported: It is not one that the engine can run.
    """
    return asyncio.run(_measure(folder, threads))


async def _measure(folder: Path, threads: int | None) -> Speed:
    decoder = read_genai_config(folder).decoder
    # Drafts that are right read the weights once for several tokens; the ceiling is of reading them once for each.
    engine = SlotEngine(EngineSettings(folder, "measured", slots=_SLOTS, threads=threads, drafts=False))
    await engine.start()
    try:
        state = engine.state()
        window = state.models[0].window
        prompt, answer = min(_LONG_PROMPT, window // 2), min(_ANSWER, window // 4)
        reading = [(await _answer(engine, prompt, 2, first=at))[0] for at in range(_ROUNDS)]
        decoding = [(await _answer(engine, _SHORT_PROMPT, answer, first=at))[1] for at in range(_ROUNDS)]
    finally:
        await engine.stop()
    return Speed(
        state=state,
        bytes_per_token=decoder.bytes_per_token or (folder / f"{decoder.filename}.data").stat().st_size,
        tokens_per_s=(answer - 1) / min(decoding) * 1000,
        prefill_tokens_per_s=prompt / min(reading) * 1000,
    )


async def _answer(engine: SlotEngine, prompt: int, answer: int, *, first: int) -> tuple[float, float]:
    """Return the milliseconds of reading a prompt, which none before began like, and of answering it."""
    tokens = tuple(range(first, first + prompt))
    job = GenerationJob("measured", tokens, answer, Sampling(temperature=0.0), frozenset(), cache_salt=str(first))
    generation = engine.submit(job)
    async for _ in generation:
        pass
    return generation.timings.prefill_ms, generation.timings.decode_ms
