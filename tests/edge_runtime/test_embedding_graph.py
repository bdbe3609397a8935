"""The graph that embeds, against the published model in torch, on the real weights."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from cloud_runtime.engines.embedding_model import TorchEmbedding
from edge_runtime.build.embedding.folder import write_graph_folder
from edge_runtime.build.errors import NotImportable
from edge_runtime.embeddings.graph import EmbeddingGraph, load_embedding_graph
from edge_runtime.providers.providers import cpu_only
from runtime_server import model_manifest
from runtime_server.embeddings.encoder import InputEncoder, load_encoder
from runtime_server.embeddings.model import EmbeddingFailed, Rows
from runtime_server.model_lease import ModelLease, take_lease
from runtime_server.model_manifest import ModelUnsupported

pytestmark = [pytest.mark.models, pytest.mark.timeout(120)]
# What the issue of parity allows; measured: 3e-7 against torch, 6e-8 between a batch and its rows alone.
OF_TORCH, OF_SOLO = 1e-4, 1e-6
TEXTS = (
    "Hi",
    "The tide turns at noon.",
    "Ebbe und Flut, 潮の満ち引き, مد و جزر: accents é ü ñ and a word nobody knows, xqzvbnmkl.",
    "a " * 126,
    "An upper CASE sentence, with-hyphens, 3.14159 and \t odd   spaces.",
)


@pytest.fixture(scope="module")
def lease(models_dir: Path) -> Iterator[ModelLease]:
    lease = take_lease(models_dir / "all-minilm-l6-v2")
    yield lease
    lease.release()


@pytest.fixture(scope="module")
def published(models_dir: Path) -> Iterator[Path]:
    lease = take_lease(models_dir / "all-minilm-l6-v2-f32")
    yield lease.folder
    lease.release()


@pytest.fixture(scope="module")
def graph(lease: ModelLease) -> EmbeddingGraph:
    return load_embedding_graph(lease.folder, model_manifest.read_manifest(lease.folder), cpu_only(2))


@pytest.fixture(scope="module")
def encoder(lease: ModelLease) -> InputEncoder:
    return load_encoder(lease.folder, 256)


@pytest.fixture(scope="module")
def rows(encoder: InputEncoder) -> Rows:
    rng = np.random.default_rng(3)
    drawn = [tuple(rng.integers(1000, 30000, length).tolist()) for length in (5, 128, 256, 1)]
    return [*encoder.encode(TEXTS), *drawn]


def test_vectors_agree_with_torch(graph: EmbeddingGraph, published: Path, rows: Rows) -> None:
    own, theirs = graph.run(rows), TorchEmbedding(published).run(rows)
    assert own.shape == theirs.shape == (len(rows), 384)
    assert np.abs(own - theirs).max() <= OF_TORCH
    assert np.allclose(np.linalg.norm(own, axis=1), 1.0, atol=1e-6)


def test_each_vector_of_a_batch_is_its_solo_vector_whatever_stands_beside_it(graph: EmbeddingGraph, rows: Rows) -> None:
    together = graph.run(rows)
    for at, row in enumerate(rows):
        assert np.abs(graph.run([row])[0] - together[at]).max() <= OF_SOLO, (at, len(row))


def test_an_interrupted_run_ends_early_and_the_next_one_is_as_ever(graph: EmbeddingGraph, rows: Rows) -> None:
    long = [rows[7]] * 96  # seconds of work
    began = time.monotonic()
    with ThreadPoolExecutor(1) as thread:
        run = thread.submit(graph.run, long)
        while not run.done():  # before it has begun there is nothing to interrupt
            graph.interrupt()
        with pytest.raises(EmbeddingFailed):
            run.result()
    ended_after_s = time.monotonic() - began
    began = time.monotonic()
    assert graph.run(long[:24]).shape == (24, 384)
    assert ended_after_s < time.monotonic() - began


def test_a_token_that_is_none_fails_without_a_word_of_it(graph: EmbeddingGraph) -> None:
    with pytest.raises(EmbeddingFailed) as failed:
        graph.run([(101, 999_999, 102)])
    assert "999" not in str(failed.value)


def test_a_folder_of_another_format_is_not_loaded(models_dir: Path) -> None:
    with take_lease(models_dir / "all-minilm-l6-v2-f32") as lease:
        manifest = model_manifest.read_manifest(lease.folder)
        with pytest.raises(ModelUnsupported, match="of the format huggingface"):
            load_embedding_graph(lease.folder, manifest, cpu_only(2))


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        ("config.json", {"model_type": "t5"}, "t5"),
        ("config.json", {"hidden_act": "relu"}, "relu"),
        ("config.json", {"intermediate_size": 1000}, "intermediate.dense.weight"),
        ("sentence_bert_config.json", {"max_seq_length": None}, "lacks a number"),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True}, "pools by"),
    ],
)
def test_what_cannot_be_built_is_refused_by_its_name(
    published: Path, tmp_path: Path, file: str, change: dict[str, object], says: str
) -> None:
    source, folder = tmp_path / "published", tmp_path / "made"
    folder.mkdir()
    shutil.copytree(published, source)
    (source / "1_Pooling").mkdir(exist_ok=True)
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in _MODULES]
    (source / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (source / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}), encoding="utf-8")
    target = source / file
    target.write_text(json.dumps({**json.loads(target.read_bytes()), **change}), encoding="utf-8")
    with pytest.raises(NotImportable, match=says):
        write_graph_folder(source, folder)


_MODULES = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))
