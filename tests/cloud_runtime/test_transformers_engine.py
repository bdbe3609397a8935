"""The engine on torch, held at chosen moments by the clock that its worker looks at."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cloud_runtime.engines.loading import EngineSettings
from cloud_runtime.engines.transformers import TransformersEngine
from inference_protocol.runtime_state import RuntimeStatus
from inference_protocol.sampling import Sampling
from runtime_server import model_manifest
from runtime_server.engine import FinishReason, Generation, GenerationJob, NotReady, QueueFull
from runtime_server.model_manifest import ModelDamaged, ModelMissing, ModelUnsupported

TinyModel = Callable[..., Path]
GREEDY = Sampling(temperature=0.0)


class HoldingClock:
    """The real time plus `later_s`. `hold(n)` makes the worker's n-th look at it wait until `release`."""

    def __init__(self) -> None:
        self.looks = 0
        self.later_s = 0.0
        self.held = threading.Event()
        self._left = 0
        self._go = threading.Event()

    def __call__(self) -> float:
        if threading.current_thread() is not threading.main_thread():
            self.looks += 1
            self._left -= 1
            if self._left == 0:
                self.held.set()
                assert self._go.wait(60)
        return time.monotonic() + self.later_s

    def hold(self, look: int) -> None:
        self.held.clear()
        self._go.clear()
        self._left = look

    async def is_held(self) -> None:
        assert await asyncio.to_thread(self.held.wait, 60)

    def release(self) -> None:
        self._go.set()


@pytest.fixture
def clock() -> HoldingClock:
    return HoldingClock()


@asynccontextmanager
async def running(folder: Path, clock: HoldingClock, **settings: Any) -> AsyncIterator[TransformersEngine]:
    engine = TransformersEngine(EngineSettings(folder, "tiny", threads=1, **settings), clock=clock)
    await engine.start()
    try:
        async with asyncio.timeout(60):
            yield engine
    finally:
        clock.release()
        await engine.stop()


def job(prompt: int | tuple[int, ...] = 10, max_tokens: int = 5, **changes: Any) -> GenerationJob:
    defaults: dict[str, Any] = {"request_id": "r", "sampling": GREEDY, "stop_tokens": frozenset()}
    tokens = (3,) * prompt if isinstance(prompt, int) else prompt
    return GenerationJob(prompt=tokens, max_tokens=max_tokens, **(defaults | changes))


async def read(generation: Generation) -> tuple[list[int], FinishReason | None]:
    tokens: list[int] = []
    finish = None
    async for event in generation:
        tokens += event.tokens
        finish = event.finish
    return tokens, finish


def busy(engine: TransformersEngine) -> tuple[int, int, int]:
    state = engine.state()
    return state.running, state.waiting, state.prefill_tokens_queued


async def test_it_tells_what_it_serves_and_how_fast_it_is(tiny_model: TinyModel, clock: HoldingClock) -> None:
    folder = tiny_model()
    engine = TransformersEngine(EngineSettings(folder, "tiny", threads=1), clock=clock)
    assert engine.state().status is RuntimeStatus.STARTING
    with pytest.raises(NotReady):
        engine.submit(job())
    async with running(folder, clock) as engine:
        state = engine.state()
        assert (state.status, state.slots, state.waiting_limit) == (RuntimeStatus.READY, 1, 16)
        assert state.provider in {"torch:cpu", "torch:cuda"}
        assert state.ms_per_token[1] > 0
        assert state.prefill_tokens_per_s is not None
        assert state.prefill_tokens_per_s > 0
        assert state.models[0].digest == model_manifest.read_manifest(folder).digest
    assert engine.state().status is RuntimeStatus.DRAINING
    with pytest.raises(NotReady):
        engine.submit(job())


async def test_a_stop_token_ends_the_answer_and_is_no_part_of_it(tiny_model: TinyModel, clock: HoldingClock) -> None:
    async with running(tiny_model(), clock) as engine:
        whole, finish = await read(engine.submit(job(max_tokens=6)))
        assert (len(whole), finish) == (6, FinishReason.LENGTH)
        last_new = next(at for at in range(5, -1, -1) if whole[at] not in whole[:at])
        cut, finish = await read(engine.submit(job(max_tokens=6, stop_tokens=frozenset({whole[last_new]}))))
        assert (cut, finish) == (whole[:last_new], FinishReason.STOP)


async def test_one_token_prompts_and_one_token_answers_work(tiny_model: TinyModel, clock: HoldingClock) -> None:
    async with running(tiny_model(), clock) as engine:
        tokens, finish = await read(engine.submit(job(prompt=1, max_tokens=1)))
        assert (len(tokens), finish) == (1, FinishReason.LENGTH)


async def test_reading_in_chunks_answers_as_reading_at_once_does(tiny_model: TinyModel, clock: HoldingClock) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    folder = tiny_model()
    prompt = tuple(range(200)) * 2
    async with running(folder, clock) as engine:
        tokens, _ = await read(engine.submit(job(prompt, max_tokens=8)))
    model = AutoModelForCausalLM.from_pretrained(folder)
    at_once = model.generate(torch.tensor([prompt]), max_new_tokens=8, do_sample=False, eos_token_id=None)
    assert tokens == at_once[0, 400:].tolist()


async def test_a_seed_repeats_and_no_seed_does_not(tiny_model: TinyModel, clock: HoldingClock) -> None:
    async with running(tiny_model(), clock) as engine:

        async def ask(seed: int | None) -> list[int]:
            return (await read(engine.submit(job(max_tokens=12, sampling=Sampling(seed=seed)))))[0]

        seeded, free = await ask(-7), await ask(None)
        assert await ask(-7) == seeded
        assert await ask(None) != free  # also right after the same seed
        assert await ask(8) != seeded


@pytest.mark.parametrize("narrow", [{"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-4}])
async def test_narrow_sampling_is_greedy(tiny_model: TinyModel, clock: HoldingClock, narrow: dict[str, Any]) -> None:
    async with running(tiny_model(), clock) as engine:
        greedy, _ = await read(engine.submit(job(max_tokens=8)))
        assert (await read(engine.submit(job(max_tokens=8, sampling=Sampling(**narrow)))))[0] == greedy


@pytest.mark.parametrize(("top_k", "least", "most"), [(3, 2, 3), (0, 60, 120)])
async def test_top_k_keeps_as_many_tokens_as_it_says_and_nothing_keeps_all(
    tiny_model: TinyModel, clock: HoldingClock, top_k: int, least: int, most: int
) -> None:
    async with running(tiny_model(), clock) as engine:
        found = set()
        for seed in range(120):
            sampling = Sampling(temperature=2.0, top_k=top_k, seed=seed)
            found.update((await read(engine.submit(job(max_tokens=1, sampling=sampling))))[0])
        assert least <= len(found) <= most  # transformers' own default would keep 50


async def test_a_folders_own_defaults_change_no_answer(tiny_model: TinyModel, clock: HoldingClock) -> None:
    plain, tuned = (
        tiny_model("plain"),
        tiny_model("tuned", repetition_penalty=5.0, max_new_tokens=3, suppress_tokens=[9]),
    )
    answers = []
    for folder in (plain, tuned):
        async with running(folder, clock) as engine:
            answers.append(await read(engine.submit(job(max_tokens=20))))
    assert answers[0] == answers[1]
    assert answers[0][1] is FinishReason.LENGTH


async def test_one_runs_the_rest_wait_and_one_too_many_is_refused(tiny_model: TinyModel, clock: HoldingClock) -> None:
    async with running(tiny_model(), clock, waiting_limit=2) as engine:
        clock.hold(1)
        admitted = [engine.submit(job(prompt=10 + number)) for number in range(3)]
        await clock.is_held()
        assert busy(engine) == (1, 2, 10 + 11 + 12)
        with pytest.raises(QueueFull):
            engine.submit(job())
        clock.release()
        alone = [(await read(each))[0] for each in admitted]
        assert busy(engine) == (0, 0, 0)
        assert [(await read(engine.submit(job(prompt=10 + number))))[0] for number in range(3)] == alone


async def test_a_request_that_waits_is_cancelled_at_once(tiny_model: TinyModel, clock: HoldingClock) -> None:
    async with running(tiny_model(), clock) as engine:
        clock.hold(1)
        first, second, third = (engine.submit(job()) for _ in range(3))
        await clock.is_held()
        second.cancel()
        second.cancel()
        assert await read(second) == ([], FinishReason.CANCELLED)
        assert busy(engine) == (1, 1, 20)
        assert second.timings.queue_ms > 0
        assert second.timings.prefill_ms == 0
        clock.release()
        assert await read(third) == await read(first)


async def test_a_request_is_cancelled_between_two_chunks_of_its_prompt(
    tiny_model: TinyModel, clock: HoldingClock
) -> None:
    async with running(tiny_model(), clock) as engine:
        clock.hold(3)  # before the first chunk, after it, before the second
        reading = engine.submit(job(prompt=1000))
        await clock.is_held()
        assert busy(engine) == (1, 0, 1000 - 128)
        reading.cancel()
        clock.release()
        assert await read(reading) == ([], FinishReason.CANCELLED)
        assert busy(engine) == (0, 0, 0)
        assert reading.timings.decode_ms == 0


async def test_a_request_is_cancelled_between_two_tokens(tiny_model: TinyModel, clock: HoldingClock) -> None:
    async with running(tiny_model(), clock) as engine:
        answer = engine.submit(job(max_tokens=2000))
        events = aiter(answer)
        await anext(events)
        clock.hold(1)
        await clock.is_held()
        looks = clock.looks
        answer.cancel()
        clock.release()
        rest = [event async for event in events]
        assert rest[-1].finish is FinishReason.CANCELLED
        assert clock.looks - looks < 5  # at most one step more, which looks twice
        assert busy(engine) == (0, 0, 0)
        assert answer.timings.decode_ms > 0


async def test_leaving_the_stream_early_cancels(tiny_model: TinyModel, clock: HoldingClock) -> None:
    async with running(tiny_model(), clock) as engine:
        events = aiter(engine.submit(job(max_tokens=2000)))
        await anext(events)
        clock.hold(1)
        await clock.is_held()
        await events.aclose()  # type: ignore[attr-defined]  # it is a generator
        waiting = engine.submit(job())
        clock.release()
        assert len((await read(waiting))[0]) == 5


async def test_a_deadline_that_passes_in_the_queue_ends_the_wait(tiny_model: TinyModel, clock: HoldingClock) -> None:
    async with running(tiny_model(), clock) as engine:
        clock.hold(1)
        first = engine.submit(job())
        late = engine.submit(job(deadline=asyncio.get_running_loop().time() + 0.01))
        await clock.is_held()
        assert await read(late) == ([], FinishReason.LENGTH)
        assert busy(engine) == (1, 0, 10)
        clock.release()
        await read(first)


async def test_a_deadline_that_passes_ends_the_answer_with_what_there_is(
    tiny_model: TinyModel, clock: HoldingClock
) -> None:
    async with running(tiny_model(), clock) as engine:
        answer = engine.submit(job(max_tokens=2000, deadline=asyncio.get_running_loop().time() + 1000))
        events = aiter(answer)
        await anext(events)
        clock.hold(1)
        await clock.is_held()
        clock.later_s = 2000
        clock.release()
        rest = [event async for event in events]
        assert rest[-1].finish is FinishReason.LENGTH
        assert len(rest) < 1999


async def test_a_deadline_that_passes_while_the_prompt_is_read_ends_it(
    tiny_model: TinyModel, clock: HoldingClock
) -> None:
    async with running(tiny_model(), clock) as engine:
        clock.hold(3)
        reading = engine.submit(job(prompt=1000, deadline=asyncio.get_running_loop().time() + 1000))
        await clock.is_held()
        clock.later_s = 2000
        clock.release()
        assert await read(reading) == ([], FinishReason.LENGTH)


async def test_stopping_ends_what_waits_and_what_runs(tiny_model: TinyModel, clock: HoldingClock) -> None:
    async with running(tiny_model(), clock) as engine:
        runs = engine.submit(job(max_tokens=2000))
        waits = engine.submit(job())
        events = aiter(runs)
        await anext(events)
        await engine.stop()
        assert [event async for event in events][-1].finish is FinishReason.CANCELLED
        assert await read(waits) == ([], FinishReason.CANCELLED)


@pytest.mark.parametrize("sampling", [GREEDY, Sampling()])
async def test_values_that_are_not_finite_end_the_request_with_an_error(
    tiny_model: TinyModel, clock: HoldingClock, sampling: Sampling
) -> None:
    async with running(tiny_model(poisoned_token=7), clock) as engine:
        (event,) = [event async for event in engine.submit(job((3, 7, 3), sampling=sampling))]
        assert (event.tokens, event.finish) == ((), FinishReason.ERROR)
        assert event.error
        assert busy(engine) == (0, 0, 0)
        assert len((await read(engine.submit(job(max_tokens=1))))[0]) == 1


async def test_a_model_that_can_say_nothing_does_not_start(tiny_model: TinyModel) -> None:
    engine = TransformersEngine(EngineSettings(tiny_model(poisoned_token=0), "tiny"))
    with pytest.raises(ModelUnsupported, match="not finite"):
        await engine.start()
    await engine.stop()


async def test_a_damaged_or_foreign_folder_fails_the_start_by_name(tiny_model: TinyModel, tmp_path: Path) -> None:
    folder = tiny_model()
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()

    async def start() -> None:
        engine = TransformersEngine(EngineSettings(folder, "tiny"))
        try:
            await engine.start()
        finally:
            assert engine.state().status is RuntimeStatus.FAILED
            assert engine.state().detail
            await engine.stop()

    weights.write_bytes(whole[:-4] + b"\0\1\2\3")
    with pytest.raises(ModelDamaged, match=r"model\.safetensors"):
        await start()
    weights.write_bytes(whole)
    manifest = model_manifest.read_manifest(folder)
    model_manifest.write_manifest(folder, manifest.model_copy(update={"format": "onnx-genai"}))
    with pytest.raises(ModelUnsupported, match="onnx-genai"):
        await start()
    (folder / model_manifest.FILE_NAME).unlink()
    with pytest.raises(ModelMissing):
        await start()


def test_torch_is_not_imported_before_a_model_is_loaded() -> None:
    code = "import sys, cloud_runtime.__main__; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
