"""What a model lost on its way here, measured before it may be used. The manifest keeps the figures.

An import that carries blocks over loses nothing but what decoding rounds: its measure is the same blocks with exact
activations, which is how the model's own prefill graph computes. One that quantizes is measured against the float32
weights that it was made from.

The threshold of the greedy answer is low: one near-tie among 32 tokens ends the agreement of two models that are as
good as one, and the default model's is 0.63. What cannot agree on two tokens is broken where it goes on from its own
words.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from edge_runtime.build.errors import GateFailed
from edge_runtime.build.held_out import ENGLISH, LANGUAGES
from edge_runtime.generation.genai_config import read_genai_config
from edge_runtime.generation.graph import DecoderGraph
from runtime_server.choosing.sampler import Logits
from runtime_server.cpus import usable_cpus
from runtime_server.model_manifest import GateFigures

_LARGEST_KL = 0.02
_SMALLEST_AGREEMENT = 0.95
_LARGEST_PERPLEXITY = 1.05  # times the exact one
_SMALLEST_GREEDY = 0.05  # two tokens of 32
_MOST_TOKENS = 384
_PROMPT, _GREEDY = 48, 32
_DECODED, _EXACT = 0, 1  # slots


def measure(folder: Path, reference: Path | None = None) -> GateFigures:
    """Read a held-out text twice, token by token, and say a few words greedily.

    Args:
        folder: The model.
        reference: A folder with the same tokenizer whose prefill counts as exact, instead of the model's own.

    Raises:
        GateFailed: The graphs compute what is no number.
        ModelUnsupported: A graph cannot be loaded.
        GraphRunFailed: A graph cannot be run.
    """
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    config = read_genai_config(folder)
    window = min(config.context_length, _MOST_TOKENS + 1)
    tokens: list[int] = tokenizer.encode(ENGLISH, add_special_tokens=False).ids[: window - 1]
    graph = _open(folder, window)
    exact = graph if reference is None else _open(reference, window)
    found = np.stack([_log_softmax(graph.decode([token], [at])[0]) for at, token in enumerate(tokens)])
    expected = np.stack([_log_softmax(exact.prefill(_EXACT, [token], at)) for at, token in enumerate(tokens)])
    if not (np.isfinite(found).all() and np.isfinite(expected).all()):
        raise GateFailed("The graphs compute values that are no numbers.")
    following = np.arange(len(tokens) - 1), np.array(tokens[1:])
    return GateFigures(
        tokens=len(tokens),
        mean_kl=_rounded((np.exp(expected) * (expected - found)).sum(-1).mean()),
        top1_agreement=_rounded((found.argmax(-1) == expected.argmax(-1)).mean()),
        perplexity=_rounded(np.exp(-found[following].mean())),
        perplexity_exact=_rounded(np.exp(-expected[following].mean())),
        greedy_agreement=_rounded(_greedy_agreement(graph, exact, tokens[: min(_PROMPT, window // 2)], window)),
        tokenizer_round_trip=_round_trips(tokenizer),
    )


def require(figures: GateFigures) -> None:
    """Refuse a model that lost too much.

    Raises:
        GateFailed: The message names the figure.
    """
    if not figures.mean_kl <= _LARGEST_KL:
        raise GateFailed(f"The mean KL divergence is {figures.mean_kl}; at most {_LARGEST_KL} passes.")
    if not figures.top1_agreement >= _SMALLEST_AGREEMENT:
        raise GateFailed(f"The top-1 agreement is {figures.top1_agreement}; at least {_SMALLEST_AGREEMENT} passes.")
    if not figures.perplexity <= _LARGEST_PERPLEXITY * figures.perplexity_exact:
        raise GateFailed(
            f"The perplexity is {figures.perplexity} where the exact one is {figures.perplexity_exact}; at most "
            f"{_LARGEST_PERPLEXITY} times that passes."
        )
    if not figures.greedy_agreement >= _SMALLEST_GREEDY:
        raise GateFailed(
            f"The share of a greedy answer that agrees is {figures.greedy_agreement}; at least {_SMALLEST_GREEDY} "
            "passes."
        )
    if not figures.tokenizer_round_trip:
        raise GateFailed("The tokenizer does not give back the text that it was given.")


def _greedy_agreement(graph: DecoderGraph, exact: DecoderGraph, prompt: list[int], window: int) -> float:
    """Return which share of a greedy answer comes before the first token that differs."""
    steps = min(_GREEDY, window - len(prompt))
    said: list[list[int]] = []
    for reader, slot in ((graph, _DECODED), (exact, _EXACT)):
        logits, answer = reader.prefill(slot, prompt, 0), []
        for at in range(len(prompt), len(prompt) + steps):
            answer.append(int(logits.argmax()))
            last = answer[-1:]
            logits = reader.decode(last, [at])[0] if slot == _DECODED else reader.prefill(slot, last, at)
        said.append(answer)
    same = [one == other for one, other in zip(*said, strict=True)]
    return (same.index(False) if False in same else len(same)) / len(same)


def _open(folder: Path, window: int) -> DecoderGraph:
    return DecoderGraph(folder, read_genai_config(folder), slots=2, window=window, threads=usable_cpus())


def _round_trips(tokenizer: Tokenizer) -> bool:
    for text in (ENGLISH, *LANGUAGES):
        if tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids) != text:
            return False
    return True


def _log_softmax(logits: Logits) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max()
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return result


def _rounded(value: float | np.floating) -> float:
    return float(f"{value:.4g}")
