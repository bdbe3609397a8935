from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from observability import Telemetry
from runtime_server.app import create_app
from runtime_server.chat_model import load_chat_model
from runtime_server.chat_models import ChatModels
from runtime_server.lifecycle import Lifecycle
from tests.runtime_server.scripted_engine import MODEL, ScriptedEngine
from tests.support.waiting import until

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train_tokenizer() -> Tokenizer:
    """A byte-level BPE of a few hundred tokens, with the special tokens of ChatML."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["hello world, the user and the assistant say hello to the world"] * 9, trainer)
    return tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return train_tokenizer()


@pytest.fixture(scope="session")
def model_dir(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>"}', encoding="utf-8")
    return folder


@dataclass
class RunningRuntime:
    """A served front, its engine, and a client of it."""

    engine: ScriptedEngine
    lifecycle: Lifecycle
    client: httpx.AsyncClient
    address: tuple[str, int]
    spans: InMemorySpanExporter

    async def is_ready(self) -> bool:
        return (await self.client.get("/readyz")).status_code == 200

    async def ask(self, text: str = "hello", **more: Any) -> httpx.Response:
        headers = more.pop("headers", None)
        body = {"model": MODEL, "messages": [{"role": "user", "content": text}], **more}
        return await self.client.post("/v1/chat/completions", json=body, headers=headers)


RuntimeFactory = Callable[..., AbstractAsyncContextManager[RunningRuntime]]


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    yield exporter
    exporter.shutdown()


@pytest.fixture
def start_runtime(model_dir: Path, tokenizer: Tokenizer, spans: InMemorySpanExporter) -> RuntimeFactory:
    """Serve the front on a real socket, in this event loop, so that a test can hold the engine at any moment."""

    @asynccontextmanager
    async def start(*, ready: bool = True, **options: Any) -> AsyncIterator[RunningRuntime]:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(spans))
        engine = ScriptedEngine(lambda text: tokenizer.encode(text, add_special_tokens=False).ids)
        if not ready:
            engine.loaded.clear()
        lifecycle = Lifecycle(engine)
        telemetry = Telemetry(provider)
        app = create_app(lifecycle, ChatModels(load_chat_model(model_dir, MODEL)), telemetry=telemetry, **options)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", ws="none"))
        listener = socket.create_server(("127.0.0.1", 0))
        address = listener.getsockname()
        serving = asyncio.create_task(server._serve([listener]))
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{address[1]}", timeout=10) as client:
                runtime = RunningRuntime(engine, lifecycle, client, address, spans)
                if ready:
                    await until(runtime.is_ready)
                yield runtime
        finally:
            lifecycle.cancel_running()
            server.should_exit = True
            await asyncio.wait_for(serving, 10)
            provider.shutdown()
        assert engine.stopped

    return start
