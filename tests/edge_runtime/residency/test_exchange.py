"""A version is exchanged for another while requests run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_runtime.models.errors import InUse
from edge_runtime.residency import resident
from edge_runtime.residency.memory import memory_need
from inference_protocol.runtime_state import RuntimeStatus
from runtime_server.chat_model import load_chat_model
from runtime_server.chat_models import ChatModels
from runtime_server.engine import FinishReason, NotReady
from tests.edge_runtime.residency.conftest import Machine, ask, read, until, whose


def served(engine) -> str:
    models = engine.state().models
    return models[0].digest if models else ""


def holds(folder: Path) -> int:
    """How many locks this process has on a version, as the kernel tells."""
    inode = (folder / "manifest.json").stat().st_ino
    return sum(f":{inode} " in line and "FLOCK" in line for line in Path("/proc/locks").read_text().splitlines())


def broken(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"not a graph")


async def test_eight_streams_end_on_the_version_they_began_on_and_new_ones_go_to_the_new(versions, running) -> None:
    old = versions.serve(0)
    first = versions.store.active("tiny")
    async with running(slots=8) as engine:
        streams = [engine.submit(ask(old, max_tokens=1500)) for _ in range(8)]
        reading = [asyncio.create_task(read(stream)) for stream in streams]
        await until(lambda: engine.state().running == 8)
        new = versions.serve(1)
        await until(lambda: served(engine) == new)
        assert not any(task.done() for task in reading), "the old streams must still run, or nothing is shown"
        with pytest.raises(InUse):
            versions.store.remove(versions.store.find(f"tiny@{first.id}"))
        answers = await asyncio.gather(*(read(engine.submit(ask(new, max_tokens=50))) for _ in range(8)))
        assert [whose(tokens) for tokens, _ in answers] == [{1}] * 8
        for tokens, end in await asyncio.gather(*reading):
            assert (len(tokens), whose(tokens), end.finish) == (1500, {0}, FinishReason.LENGTH)

        def gone() -> bool:
            try:
                versions.store.remove(versions.store.find(f"tiny@{first.id}"))
            except InUse:
                return False
            return True

        await until(gone)
        with pytest.raises(NotReady):
            engine.submit(ask(old))
        state = engine.state()
        assert (state.status, state.running, state.waiting, state.detail) == (RuntimeStatus.READY, 0, 0, None)


async def test_a_version_that_cannot_be_loaded_leaves_the_old_one_and_the_state_says_so(versions, running) -> None:
    old = versions.serve(0)
    async with running() as engine:
        stream = asyncio.create_task(read(engine.submit(ask(old, max_tokens=500))))
        versions.serve(1, broken)
        await until(lambda: "was not loaded" in (engine.state().detail or ""))
        state = engine.state()
        assert (state.status, served(engine)) == (RuntimeStatus.READY, old)
        assert "model.onnx" in state.detail
        tokens, _ = await stream
        assert (len(tokens), whose(tokens)) == (500, {0})
        assert whose((await read(engine.submit(ask(old))))[0]) == {0}
        third = versions.serve(2)  # one that can be loaded is taken afterwards
        await until(lambda: served(engine) == third)
        assert engine.state().detail is None


async def test_a_version_whose_tokenizer_is_no_tokenizer_is_not_loaded_either(versions, running) -> None:
    old = versions.serve(0)
    async with running() as engine:
        versions.serve(1, lambda folder: (folder / "tokenizer.json").write_text("{}"))
        await until(lambda: "tokenizer.json" in (engine.state().detail or ""))
        assert whose((await read(engine.submit(ask(old))))[0]) == {0}


@pytest.fixture
def small_machine(versions) -> Callable[[], Machine]:
    """Return a maker of machines with room for one version and a half."""
    return lambda: Machine(int(1.5 * memory_need(versions.folder.resolve(), slots=2, context=4096).total))


async def test_without_room_for_both_new_requests_wait_until_old_streams_have_ended(
    versions, running, small_machine
) -> None:
    old = versions.serve(0)
    machine = small_machine()
    async with running(available=lambda: machine.free, build=machine.build) as engine:
        stream = asyncio.create_task(read(engine.submit(ask(old, max_tokens=1500))))
        await until(lambda: engine.state().running == 1)
        new = versions.serve(1)
        await until(lambda: served(engine) == new)
        assert "once the streams of the old one have ended" in engine.state().detail
        waiting = engine.submit(ask(new))
        assert not stream.done()
        tokens, _ = await read(waiting)
        assert whose(tokens) == {1}
        tokens, end = await stream
        assert (len(tokens), whose(tokens), end.finish) == (1500, {0}, FinishReason.LENGTH)
        assert machine.least >= 0, "both were in memory at once"
        assert waiting.timings.queue_ms > 0
        with pytest.raises(NotReady):
            engine.submit(ask(old))
        assert engine.state().detail is None


async def test_without_room_for_both_a_broken_version_brings_the_old_one_back(versions, running, small_machine) -> None:
    old = versions.serve(0)
    machine = small_machine()
    async with running(available=lambda: machine.free, build=machine.build) as engine:
        versions.serve(1, broken)
        await until(lambda: "was not loaded" in (engine.state().detail or ""))
        assert "model.onnx" in engine.state().detail
        assert served(engine) == old
        tokens, _ = await read(engine.submit(ask(old)))
        assert whose(tokens) == {0}


async def test_a_version_that_fits_in_no_way_is_refused_with_the_numbers(versions, running) -> None:
    old = versions.serve(0)
    room = [1 << 40]
    async with running(available=lambda: room[0]) as engine:
        room[0] = 0

        def larger(folder: Path) -> None:
            with (folder / "model.onnx.data").open("ab") as file:
                file.write(bytes(32 << 20))

        versions.serve(1, larger)
        await until(lambda: "was not loaded" in (engine.state().detail or ""))
        said = engine.state().detail
        assert "MiB weights" in said
        assert "MiB are available" in said
        assert whose((await read(engine.submit(ask(old))))[0]) == {0}


async def test_the_same_files_under_another_manifest_are_not_loaded_again(versions, running) -> None:
    old = versions.serve(0)
    loads = []
    async with running(loaded=loads.append) as engine:
        folder = versions.store.active("tiny").folder
        manifest = versions.store.active("tiny").manifest().model_copy(update={"source": {"number": "other"}})
        import shutil

        from runtime_server import model_manifest

        copy = folder.parent.parent.parent.parent / "copy"
        shutil.copytree(folder, copy)
        model_manifest.write_manifest(copy, manifest)
        versions.store.activate(versions.store.publish(copy))
        await asyncio.sleep(0.2)
        assert (len(loads), served(engine)) == (1, old)
        assert whose((await read(engine.submit(ask(old))))[0]) == {0}


def without_utf8(folder: Path) -> None:
    (folder / "chat_template.jinja").write_bytes(b"\xff\xfe")


def with_what_nobody_foresaw(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    (folder / "tokenizer_config.json").write_text('{"chat_template": [1]}')


@pytest.mark.parametrize("damage", [without_utf8, with_what_nobody_foresaw])
async def test_after_a_version_that_is_wrong_in_any_way_the_next_one_is_still_served(versions, running, damage) -> None:
    old = versions.serve(0)
    first = versions.store.active("tiny")
    async with running() as engine:
        versions.serve(1, damage)
        await until(lambda: "was not loaded" in (engine.state().detail or ""))
        assert served(engine) == old
        versions.store.activate(first)
        await until(lambda: engine.state().detail is None)
        third = versions.serve(2)
        await until(lambda: served(engine) == third)


async def test_a_version_that_comes_back_while_it_still_answers_is_talked_to_in_its_own_way(versions, running) -> None:
    versions.serve(0)
    first, other = (load_chat_model(versions.folder, "tiny") for _ in range(2))
    models = ChatModels(first)
    async with running(models=models) as engine:
        back = versions.serve(1)
        version = versions.store.active("tiny")
        await until(lambda: served(engine) == back)
        once = holds(version.folder)
        stream = asyncio.create_task(read(engine.submit(ask(back, max_tokens=1500))))
        between = versions.serve(2)
        await until(lambda: served(engine) == between)
        versions.store.activate(version)
        await until(lambda: served(engine) == back)
        assert not stream.done(), "the version must be in memory twice, or nothing is shown"
        await stream
        await until(lambda: holds(version.folder) == once)
        models.add("another", other)
        assert models.of(back) not in (first, other)


async def test_how_to_talk_to_the_version_that_is_served_first_is_read_once(versions, running, monkeypatch) -> None:
    versions.serve(0)
    reads = []
    monkeypatch.setattr(resident, "load_chat_model", lambda folder, name: reads.append(folder))
    async with running() as engine:
        assert engine.state().status == "ready"
        assert not reads
