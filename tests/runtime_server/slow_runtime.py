"""A whole runtime process over an engine that says one token every so often: what signals are tried on."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from runtime_server.chat_models import ChatModels
from runtime_server.embeddings.model import EmbeddingModel
from runtime_server.engine import GenerationJob, TokenEvent
from runtime_server.model_manifest import Manifest
from runtime_server.options import RuntimeOptions, argument_parser
from runtime_server.serving import run
from tests.runtime_server.scripted_engine import ScriptedEngine, ScriptedGeneration

TOKEN_EVERY_S = 0.02


class SlowEngine(ScriptedEngine):
    def __init__(self) -> None:
        super().__init__(lambda text: [])
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, job: GenerationJob) -> ScriptedGeneration:
        generation = super().submit(job)
        task = asyncio.create_task(self._speak(generation))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return generation

    async def _speak(self, generation: ScriptedGeneration) -> None:
        for _ in range(generation.job.max_tokens):
            await asyncio.sleep(TOKEN_EVERY_S)
            generation.put(TokenEvent((100,)))
        generation.end()


def main() -> int:
    parser = argument_parser("slow_runtime", __doc__ or "")
    parser.add_argument("--fail", help="what the engine dies of when it starts")
    arguments = parser.parse_args()

    def build(_: ChatModels) -> SlowEngine:
        engine = SlowEngine()
        if arguments.fail:
            engine.load_error = OSError(arguments.fail)
        return engine

    return run("slow-runtime", build, RuntimeOptions.from_arguments(arguments), _no_embeddings)


def _no_embeddings(folder: Path, _: Manifest) -> EmbeddingModel:
    raise AssertionError(f"nothing here embeds, and {folder} was asked for")


if __name__ == "__main__":
    sys.exit(main())
