"""Over two thousand mixed requests, a fifth of them aborted wherever they stood, leave an engine as they found it."""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import asynccontextmanager
from pathlib import Path

from edge_runtime.generation.engine import SlotEngine
from edge_runtime.generation.loading import EngineSettings
from inference_protocol.sampling import Sampling
from runtime_server.engine import FinishReason

REQUESTS, ALONE, AT_ONCE, BOUND_S = 2200, 150, 40, 240
PHASES = ("submitted", "queued", "reading", "first token", "generating")


@asynccontextmanager
async def running(folder, **settings):
    engine = SlotEngine(EngineSettings(folder, "tiny", threads=1, **settings))
    await engine.start()
    try:
        async with asyncio.timeout(BOUND_S):
            yield engine
    finally:
        await engine.stop()


def mixed_jobs(job, chance):
    """Return jobs of all kinds; many begin alike, under three salts, and repeat themselves enough to be drafted."""
    openings = [[chance.randrange(60) for _ in range(chance.randint(8, 80))] for _ in range(12)]
    jobs = []
    for number in range(REQUESTS):
        phrase = [chance.randrange(60) for _ in range(chance.randint(1, 6))]
        prompt = chance.choice(openings)[: chance.randint(1, 80)] + phrase * chance.randint(1, 3)
        greedy = chance.random() < 0.6
        jobs.append(
            job(
                prompt,
                chance.choice([1, 2, 5, 12, 25]),
                request_id=str(number),
                sampling=Sampling(temperature=0.0 if greedy else 0.9, top_p=0.9, seed=number),
                stop_tokens=frozenset(chance.sample(range(60), chance.choice([0, 0, 3]))),
                cache_salt=chance.choice(["", "one", "other"]),
                may_be_kept=chance.random() < 0.3,
            )
        )
    return jobs


async def ask(engine, work, abort_in):
    """Ask; where `abort_in` names a phase, hang up in it. Return what was said and how it ended."""
    generation = engine.submit(work)
    tokens, finish = [], None
    if abort_in == "submitted":
        generation.cancel()
    elif abort_in == "queued":
        asyncio.get_running_loop().call_soon(generation.cancel)
    elif abort_in == "reading":
        asyncio.get_running_loop().call_later(0.002, generation.cancel)
    async for event in generation:
        tokens += event.tokens
        finish = event.finish
        if (abort_in == "first token" and tokens) or (abort_in == "generating" and len(tokens) > 2):
            break
    return tokens, finish


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def test_two_thousand_mixed_requests_with_aborts_in_every_phase_leave_nothing(tiny_model, job, tmp_path):
    chance = random.Random(2)
    jobs = mixed_jobs(job, chance)
    phases = [PHASES[number // 5 % len(PHASES)] if number % 5 == 0 else None for number in range(REQUESTS)]
    shape = {"pruned": False, "chosen": True}
    async with running(
        tiny_model("busy", **shape), slots=4, context=512, waiting_limit=AT_ONCE, prefix_folder=tmp_path / "prefixes"
    ) as engine:
        gate = asyncio.Semaphore(AT_ONCE)
        tasks, memory = len(asyncio.all_tasks()), []

        async def one(number):
            async with gate:
                memory.append(resident_bytes())
                return await ask(engine, jobs[number], phases[number])

        results = await asyncio.gather(*map(one, range(REQUESTS - ALONE)))
        results += [await one(number) for number in range(REQUESTS - ALONE, REQUESTS)]  # where drafts are checked
        while engine.state().running + engine.state().waiting:  # noqa: ASYNC110  # an engine only tells its state
            await asyncio.sleep(0.001)
        state = engine.state()
        assert (state.running, state.waiting, state.prefill_tokens_queued) == (0, 0, 0)
        assert len(asyncio.all_tasks()) == tasks
        assert not engine._streams
        half = len(memory) // 2
        assert max(memory[half:]) - max(memory[:half]) < 16 << 20
        assert state.drafted_tokens > state.accepted_tokens > 0
    assert not {"generation", "prefix-store"} & {thread.name for thread in threading.enumerate()}
    cut = {
        phase: sum(results[n][1] is not FinishReason.LENGTH for n, p in enumerate(phases) if p == phase)
        for phase in PHASES
    }
    assert all(cut.values()), cut

    async with running(tiny_model("alone", **shape), slots=1, context=512, kept_mib=0, drafts=False) as alone:
        for work, (tokens, finish), phase in zip(jobs, results, phases, strict=True):
            expected, how = await ask(alone, work, None)
            if phase is None:
                assert (tokens, finish) == (expected, how), work.request_id
            else:
                assert tokens == expected[: len(tokens)], work.request_id
