import asyncio
import random
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager

import pytest

from edge_runtime.generation.engine import SlotEngine
from edge_runtime.generation.loading import EngineSettings
from inference_protocol.runtime_state import RuntimeStatus
from inference_protocol.sampling import Sampling
from runtime_server.engine import FinishReason, NotReady, QueueFull
from runtime_server.model_manifest import ModelDamaged, ModelMissing, ModelUnsupported

BOUND_S = 20


@asynccontextmanager
async def running(folder, clock=time.monotonic, **settings):
    engine = SlotEngine(EngineSettings(folder, "tiny", **({"context": 4096, "threads": 1} | settings)), clock=clock)
    await engine.start()
    try:
        async with asyncio.timeout(BOUND_S):
            yield engine
    finally:
        await engine.stop()


async def read(generation):
    """Return all tokens and the last event."""
    tokens = []
    async for event in generation:
        tokens += event.tokens
    return tokens, event


async def until(condition):
    while not condition():  # noqa: ASYNC110  # what the engine's thread does is seen in its state alone
        await asyncio.sleep(0)


async def emptied(engine):
    await until(lambda: engine.state().running + engine.state().waiting == 0)
    return engine.state()


async def test_requests_at_once_with_aborts_leave_nothing_behind_and_mix_nothing(tiny_model, job):
    chance = random.Random(9)
    async with running(tiny_model(), slots=4, waiting_limit=1000) as engine:

        async def one(number: int):
            prompt = [chance.randrange(63) for _ in range(chance.randint(1, 60))]
            sampling = Sampling(temperature=chance.choice([0.0, 1.0]), seed=number)
            work = job(prompt, chance.randint(1, 40), sampling=sampling)
            leave_after = chance.randint(0, 5) if number % 5 == 0 else None
            generation = engine.submit(work)
            if leave_after == 0:
                generation.cancel()
            tokens = []
            async for event in generation:
                tokens += event.tokens
                if leave_after and len(tokens) >= leave_after:
                    break
            return work, tokens, event.finish

        results = await asyncio.gather(*(one(number) for number in range(200)))
        state = await emptied(engine)
        assert (state.running, state.waiting, state.prefill_tokens_queued) == (0, 0, 0)
        for work, tokens, finish in results:
            expected, _ = await read(engine.submit(work))
            assert tokens == (expected if finish is FinishReason.LENGTH else expected[: len(tokens)])
        assert sum(finish is FinishReason.LENGTH for *_, finish in results) >= 160


@pytest.mark.parametrize("how", ["break", "task cancelled"])
async def test_a_reader_that_walks_away_frees_its_slot(tiny_model, job, how):
    async with running(tiny_model(), slots=1, context=1 << 16) as engine:
        generation = engine.submit(job([1], 65_000))  # more than is generated within the bound
        if how == "break":
            async for _ in generation:
                break
        else:
            reading = asyncio.create_task(read(generation))
            await until(lambda: engine.state().running)
            reading.cancel()
        async with asyncio.timeout(5):
            await emptied(engine)
        tokens, _ = await read(engine.submit(job([1], 5)))
        assert len(tokens) == 5


async def test_a_cancelled_request_is_told_so_once_and_takes_a_second_cancel(tiny_model, job):
    async with running(tiny_model(), slots=1) as engine:
        running_one, queued = engine.submit(job([1], 4000)), engine.submit(job([2], 4000))
        for generation in (queued, running_one):
            generation.cancel()
            generation.cancel()
            _, event = await read(generation)
            assert event.finish is FinishReason.CANCELLED
            generation.cancel()
        await emptied(engine)
        tokens, _ = await read(engine.submit(job([1], 5)))
        assert len(tokens) == 5


async def test_one_request_more_than_slots_and_queue_hold_is_refused(tiny_model, job):
    async with running(tiny_model(), slots=1, waiting_limit=2) as engine:
        held = [engine.submit(job([1], 4000)) for _ in range(3)]
        with pytest.raises(QueueFull):
            engine.submit(job([1], 1))
        for generation in held:
            generation.cancel()
        await emptied(engine)
        tokens, _ = await read(engine.submit(job([1], 5)))
        assert len(tokens) == 5


async def test_a_seed_repeats_beside_other_requests(tiny_model, job):
    async with running(tiny_model(), slots=4) as engine:
        work = job([1, 2, 3], 60, sampling=Sampling(seed=77, temperature=1.2, top_p=0.95))
        expected, _ = await read(engine.submit(work))
        others = [job([n], 60, sampling=Sampling(seed=n)) for n in range(3)]
        generations = [engine.submit(each) for each in [*others, work]]
        results = await asyncio.gather(*map(read, generations))
        assert results[-1][0] == expected
        assert len({tuple(tokens) for tokens, _ in results}) == 4


async def test_the_state_tells_what_runs_and_what_was_measured(tiny_model, job):
    folder = tiny_model()
    async with running(folder, slots=3, waiting_limit=7, context=100) as engine:
        state = engine.state()
        assert state.status is RuntimeStatus.READY
        assert (state.slots, state.waiting_limit, state.provider) == (3, 7, "CPUExecutionProvider")
        assert set(state.ms_per_token) == {1, 2, 3}
        assert min(state.ms_per_token.values()) > 0
        assert state.prefill_tokens_per_s > 0
        (model,) = state.models
        assert (model.id, model.window) == ("tiny", 100)
        assert len(model.digest) == len(model.tokenizer_digest) == 64
        generations = [engine.submit(job([1, 2], 90)) for _ in range(5)]
        busy = engine.state()
        assert busy.running + busy.waiting == 5
        await asyncio.gather(*map(read, generations))
        assert engine.state().ms_per_token != state.ms_per_token


async def test_slots_that_are_measured_are_no_more_than_may_be_and_take_requests(tiny_model, job):
    async with running(tiny_model(), slots=4, measures_slots=True, waiting_limit=3) as engine:
        slots = engine.state().slots
        assert 1 <= slots <= 4
        held = [engine.submit(job([1], 4000)) for _ in range(slots + 3)]
        with pytest.raises(QueueFull):
            engine.submit(job([1], 1))
        for generation in held:
            generation.cancel()
        await emptied(engine)


async def test_the_window_is_the_models_own_where_that_is_smaller(tiny_model):
    async with running(tiny_model(), slots=1, context=1 << 20) as engine:
        assert engine.state().models[0].window == 1 << 16


async def test_requests_are_refused_before_the_start_and_after_the_stop(tiny_model, job):
    engine = SlotEngine(EngineSettings(tiny_model(), "tiny"))
    assert engine.state().status is RuntimeStatus.STARTING
    with pytest.raises(NotReady):
        engine.submit(job([1]))
    await engine.start()
    await engine.stop()
    assert engine.state().status is RuntimeStatus.DRAINING
    with pytest.raises(NotReady):
        engine.submit(job([1]))


async def test_stopping_cancels_what_runs_and_ends_the_thread(tiny_model, job):
    async with running(tiny_model(), slots=1) as engine:
        generations = [engine.submit(job([1], 4000)) for _ in range(3)]
        readers = [asyncio.create_task(read(generation)) for generation in generations]
        await until(lambda: engine.state().running)
        await engine.stop()
        for reader in readers:
            _, event = await reader
            assert event.finish is FinishReason.CANCELLED
        assert "generation" not in {thread.name for thread in threading.enumerate()}
        assert engine.state().running == 0


async def test_stopping_while_the_model_loads_ends_the_thread(tiny_model):
    engine = SlotEngine(EngineSettings(tiny_model(), "tiny"))
    starting = asyncio.create_task(engine.start())
    await asyncio.sleep(0)
    starting.cancel()
    await engine.stop()
    assert "generation" not in {thread.name for thread in threading.enumerate()}
    assert engine.state().status is RuntimeStatus.DRAINING


async def test_a_fault_in_the_engine_ends_every_answer_and_shows_in_the_state(tiny_model, job, caplog):
    broken = threading.Event()

    def clock() -> float:
        if broken.is_set() and threading.current_thread().name == "generation":
            raise RuntimeError("the clock stopped")
        return time.monotonic()

    async with running(tiny_model(), clock, slots=1) as engine:
        generations = [engine.submit(job([1], 4000)) for _ in range(3)]
        broken.set()
        for _, event in await asyncio.gather(*map(read, generations)):
            assert event.finish is FinishReason.ERROR
        assert engine.state().status is RuntimeStatus.FAILED
        assert engine.state().detail == "the clock stopped"
        with pytest.raises(NotReady):
            engine.submit(job([1]))
    assert "The engine failed" in caplog.text


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda folder: (folder / "manifest.json").unlink(), ModelMissing),
        (lambda folder: (folder / "genai_config.json").unlink(), ModelDamaged),
        (lambda folder: flip_a_byte(folder / "model.onnx"), ModelDamaged),
    ],
)
async def test_a_folder_that_is_not_what_was_built_is_refused(tiny_model, job, damage, error):
    folder = tiny_model()
    damage(folder)
    engine = SlotEngine(EngineSettings(folder, "tiny"))
    with pytest.raises(error) as failure:
        await engine.start()
    assert engine.state().status is RuntimeStatus.FAILED
    assert engine.state().detail == str(failure.value)
    with pytest.raises(NotReady):
        engine.submit(job([1]))
    await engine.stop()


def flip_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


async def test_a_graph_that_does_not_keep_its_cache_in_place_is_refused_at_the_start(tiny_model):
    engine = SlotEngine(EngineSettings(tiny_model(in_place=False), "tiny"))
    with pytest.raises(ModelUnsupported, match="first run"):
        await engine.start()
    await engine.stop()


def test_onnx_runtime_writes_no_telemetry(tiny_model, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    program = (
        "import asyncio, pathlib, sys\n"
        "from edge_runtime.generation.engine import SlotEngine\n"
        "from edge_runtime.generation.loading import EngineSettings\n"
        "engine = SlotEngine(EngineSettings(pathlib.Path(sys.argv[1]), 'tiny'))\n"
        "async def main():\n"
        "    await engine.start()\n"
        "    await engine.stop()\n"
        "asyncio.run(main())\n"
    )
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", program, str(tiny_model())], env=environment, check=True, timeout=60)
    assert list(home.rglob("*")) == []
