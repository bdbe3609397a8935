"""What the built edge model is worth: its logits beside those of the float32 weights that it was made from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from edge_runtime.build.held_out import ENGLISH, LANGUAGES
from edge_runtime.generation.genai_config import read_genai_config
from edge_runtime.generation.graph import DecoderGraph
from runtime_server.model_manifest import read_manifest


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def float32_logits(folder: Path, tokens: list[int]) -> NDArray[np.float32]:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    with torch.inference_mode():
        return np.asarray(model(torch.tensor([tokens])).logits[0].numpy())


def divergence(expected: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    return float((np.exp(expected) * (expected - found)).sum(-1).mean())


@pytest.fixture(scope="module")
def tokens(edge_model: Path) -> list[int]:
    ids: list[int] = Tokenizer.from_file(str(edge_model / "tokenizer.json")).encode(ENGLISH).ids
    assert len(ids) > 350
    return ids[:320]


@pytest.fixture(scope="module")
def expected(cloud_model: Path, tokens: list[int]) -> NDArray[np.float64]:
    return log_softmax(float32_logits(cloud_model, tokens))


@pytest.fixture
def graph(edge_model: Path) -> DecoderGraph:
    return DecoderGraph(edge_model, read_genai_config(edge_model), slots=1, window=512, threads=2)


@pytest.mark.models
def test_decoding_is_almost_float32(
    graph: DecoderGraph, tokens: list[int], expected: NDArray[np.float64], edge_model: Path
) -> None:
    found = log_softmax(np.stack([graph.decode([token], [at])[0].copy() for at, token in enumerate(tokens)]))
    agreement = float((expected.argmax(-1) == found.argmax(-1)).mean())
    surprise = float(-expected[np.arange(len(tokens) - 1), tokens[1:]].mean())
    assert surprise < 4.0, "float32 does not read English: the expansion is wrong"
    assert agreement >= 0.96
    assert divergence(expected, found) <= 0.01
    # What the gate says without torch is what float32 says.
    figures = read_manifest(edge_model).gate
    assert figures is not None
    assert figures.mean_kl == pytest.approx(divergence(expected, found), rel=0.3)


@pytest.mark.models
def test_a_prompt_is_read_as_float32_reads_it(
    graph: DecoderGraph, tokens: list[int], expected: NDArray[np.float64]
) -> None:
    for end in (1, 37, 160, 320):
        found = log_softmax(graph.prefill(0, tokens[:end], 0)[None])
        assert divergence(expected[end - 1 : end], found) < 1e-6
        assert found.argmax() == expected[end - 1].argmax()


@pytest.mark.models
def test_both_models_read_text_alike_and_digits_one_by_one(edge_model: Path, cloud_model: Path) -> None:
    edge, cloud = ((folder / "tokenizer.json").read_bytes() for folder in (edge_model, cloud_model))
    assert edge == cloud
    tokenizer = Tokenizer.from_str(edge.decode())
    assert tokenizer.encode("if  12").tokens == ["if", "ĠĠ", "1", "2"]  # digits are cut before spaces join words
    for text in LANGUAGES:
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
