"""Versions of a small real model: each says only tokens of its own, so that an answer tells whose it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from edge_runtime.build.gguf.folder import write_folder
from edge_runtime.generation.engine import SlotEngine
from edge_runtime.generation.loading import EngineSettings
from edge_runtime.models.store import ModelStore
from edge_runtime.models.version import Version
from edge_runtime.residency.engine import ResidencyPolicy, ResidentEngine
from edge_runtime.residency.memory import memory_need
from inference_protocol.sampling import Sampling
from runtime_server import model_manifest
from runtime_server.chat_model import load_chat_model
from runtime_server.chat_models import ChatModels
from runtime_server.engine import GenerationJob
from tests.support.gguf_files import make_contents

PATIENCE_S = 60.0
NAME = "tiny"
OFTEN = ResidencyPolicy(look_every_s=0.02, grace_s=0.05)


class Versions:
    """A store with one model. Version `n` says tokens that are `n` modulo 3."""

    def __init__(self, root: Path) -> None:
        self.store = ModelStore(root / "models", dev=True)
        self._root = root

    @property
    def folder(self) -> Path:
        return self.store.root / NAME

    def publish(self, number: int, damage: Callable[[Path], None] = lambda folder: None, window: int = 4096) -> Version:
        made = make_contents(kind=GGMLQuantizationType.F32, tied=False)
        made.keys["llama.context_length"] = window
        head = made.tensors["output.weight"][1]
        head[np.arange(len(head)) % 3 != number] = 0
        folder = self._root / f"staged-{number}"
        folder.mkdir()
        write_folder(made.write(self._root / f"{number}.gguf"), folder)
        damage(folder)
        files = model_manifest.hash_folder(folder)
        manifest = model_manifest.Manifest(
            name=NAME,
            public_model=NAME,
            digest=model_manifest.digest_of(files),
            files=files,
            source={"number": number},
            format="onnx-genai",
            window=window,
            created_by={},
        )
        model_manifest.write_manifest(folder, manifest)
        return self.store.publish(folder)

    def serve(self, number: int, damage: Callable[[Path], None] = lambda folder: None, window: int = 4096) -> str:
        """Make a version and activate it; return the digest that its requests carry."""
        version = self.store.activate(self.publish(number, damage, window))
        return version.manifest().digest


class Machine:
    """Memory that each loaded engine takes its part of, as it was foreseen."""

    def __init__(self, total: int) -> None:
        self.free = total
        self.least = total

    def build(self, settings: EngineSettings) -> SlotEngine:
        engine = SlotEngine(settings)
        need = memory_need(settings.folder, slots=settings.slots, context=settings.context).total
        start, stop = engine.start, engine.stop
        taken = []

        async def starting() -> None:
            taken.append(need)
            self.free -= need
            self.least = min(self.least, self.free)
            await start()

        async def stopping() -> None:
            await stop()
            self.free += taken.pop() if taken else 0

        engine.start, engine.stop = starting, stopping
        return engine


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    return Versions(tmp_path)


@pytest.fixture
def running(versions: Versions):
    """Return a context manager that runs an engine on whichever version is active."""

    @asynccontextmanager
    async def run(policy: ResidencyPolicy = OFTEN, **changes):
        slots = changes.pop("slots", 2)
        settings = EngineSettings(versions.folder, NAME, slots=slots, context=4096, waiting_limit=8, threads=1)
        models = changes.pop("models", None) or ChatModels(load_chat_model(versions.folder, NAME))
        engine = ResidentEngine(settings, models, policy, **changes)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await engine.start()
                yield engine
        finally:
            await engine.stop()

    return run


def ask(version: str = "", max_tokens: int = 8, **changes) -> GenerationJob:
    return GenerationJob(
        "r", (72, 5, 9), max_tokens, Sampling(temperature=0.0), frozenset(), version=version, **changes
    )


async def read(generation):
    """All tokens and the last event."""
    tokens = []
    async for event in generation:
        tokens += event.tokens
    return tokens, event


def whose(tokens: list[int]) -> set[int]:
    """The versions that said these tokens."""
    return {token % 3 for token in tokens}


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110  # what is waited for has no event
            await asyncio.sleep(0.005)
