"""onnxruntime-genai on a folder that its own builder made: `python -m bench.parts.genai_peer FOLDER PROMPTS TOKENS`.

Prints one JSON object: milliseconds to the first token by length of prompt, tokens a second for one stream, and for
eight rows in one batch (its static one: all begin and end together).
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import numpy as np
import onnxruntime_genai as og
import psutil

_ROWS = 8
_ROUNDS = 3


def main() -> None:
    folder, lengths, tokens = sys.argv[1], [int(n) for n in sys.argv[2].split(",")], int(sys.argv[3])
    model = og.Model(folder)
    random = np.random.default_rng(3)
    first_ms = {}
    for length in lengths:
        runs = [_first_ms(model, random.integers(1000, 40_000, (1, length))) for _ in range(_ROUNDS)]
        first_ms[str(length)] = statistics.median(runs)
    single = statistics.median(_per_s(model, random, 1, tokens) for _ in range(_ROUNDS))
    batch = statistics.median(_per_s(model, random, _ROWS, tokens) for _ in range(_ROUNDS))
    resident = psutil.Process().memory_info().rss / 1e6
    print(json.dumps({"ttft_ms": first_ms, "decode_per_s": single, "batch_of_8_per_s": batch, "resident_mb": resident}))


def _generator(model: og.Model, rows: int, longest: int) -> og.Generator:
    params = og.GeneratorParams(model)
    params.set_search_options(do_sample=False, max_length=longest, min_length=longest, batch_size=rows)
    return og.Generator(model, params)


def _first_ms(model: og.Model, prompt: np.ndarray) -> float:
    generator = _generator(model, 1, prompt.shape[1] + 2)
    began = time.perf_counter()
    generator.append_tokens(prompt.astype(np.int32))
    generator.generate_next_token()
    return (time.perf_counter() - began) * 1000


def _per_s(model: og.Model, random: np.random.Generator, rows: int, tokens: int) -> float:
    generator = _generator(model, rows, 64 + tokens)
    generator.append_tokens(random.integers(1000, 40_000, (rows, 64)).astype(np.int32))
    generator.generate_next_token()
    began = time.perf_counter()
    made = 0
    while not generator.is_done() and made < tokens - 1:
        generator.generate_next_token()
        made += 1
    return rows * made / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
