"""What choosing one token costs, by what a request asks for: `python -m bench.choosing MODEL_FOLDER`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from edge_runtime.generation.genai_config import read_genai_config
from edge_runtime.generation.graph import DecoderGraph
from inference_protocol.sampling import Sampling
from inference_protocol.structure import Structure, StructureKind
from runtime_server.choosing.row import RowChooser
from runtime_server.choosing.sampler import Logits
from runtime_server.engine import GenerationJob
from runtime_server.structure.compiler import GrammarCompiler
from runtime_server.structure.constraint import Masks
from runtime_server.structure.grammar import grammar_of

_ROUNDS = 40
_ROWS = 4
_TEXT = (
    "Once upon a time there was a small fishing village on the coast, where people lived and worked together. In this "
    "village stood an old lighthouse, and its keeper was a kind old man who had seen many storms."
)
_ALL = Sampling(0.8, 0.95, 50, 0.02, 1.1, 0.3, 0.2, ((5, -3.0), (9, 2.0)), seed=1)
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


async def main(folder: Path) -> None:
    """Print a table."""
    raw = (folder / "tokenizer.json").read_text(encoding="utf-8")
    ids = Tokenizer.from_str(raw).encode(_TEXT).ids
    graph = DecoderGraph(folder, read_genai_config(folder), slots=1, window=256, threads=1)
    # As many as stand in a step: where a step writes them, the caches hold them when tokens are chosen.
    rows: Logits = np.array(graph.read(0, ids, 0, range(len(ids))))[-_ROWS:]
    allowed = np.arange(rows.shape[1]) % 2 == 0
    for name, sampling, logprobs, mask in (
        ("greedy", Sampling(temperature=0.0), None, None),
        ("temperature", Sampling(temperature=0.8, seed=1), None, None),
        ("temperature, top_p", Sampling(temperature=0.8, top_p=0.95, seed=1), None, None),
        ("temperature, top_k, top_p", Sampling(temperature=0.8, top_p=0.95, top_k=50, seed=1), None, None),
        ("all parameters", _ALL, None, None),
        ("all parameters, 20 log probabilities, mask", _ALL, 20, allowed),
    ):
        chooser = RowChooser(GenerationJob("bench", tuple(ids), 1 << 20, sampling, frozenset(), logprobs=logprobs))
        print(f"{name:44} {_best_us(lambda: [chooser.next(row, mask) for row in rows], len(rows)):8.1f} µs")  # noqa: B023  # called here and now
    compiler = GrammarCompiler(lambda: raw, [0])
    form = grammar_of(Structure(StructureKind.JSON_SCHEMA, _SCHEMA, "bench"))
    for count in (1, 4):
        masks, forms = Masks(), [await compiler.constraint(form) for _ in range(count)]
        cost = _best_us(lambda: masks.of(forms, rows.shape[1]), 1)  # noqa: B023  # called here and now
        print(f"{f'mask of a JSON schema, {count} rows':44} {cost:8.1f} µs")


def _best_us(run: Callable[[], object], rows: int) -> float:
    seconds = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return min(seconds) / rows * 1e6


if __name__ == "__main__":
    import asyncio

    asyncio.run(main(Path(sys.argv[1])))
