from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from runtime_server import model_manifest
from runtime_server.model_manifest import Manifest

PATIENCE_S = 100.0
WINDOW = 2048
VOCABULARY = 256


@pytest.fixture(scope="session")
def cloud_url(cloud_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The default model, served by a process whose home folder must stay empty."""
    home = tmp_path_factory.mktemp("home")
    log = tmp_path_factory.mktemp("log") / "cloud.log"
    command = [sys.executable, "-m", "cloud_runtime", "--model-dir", str(cloud_model), "--model-name", "smollm2"]
    with log.open("w") as file:
        process = subprocess.Popen([*command, "--port", "0"], stderr=file, env=os.environ | {"HOME": str(home)})
    try:
        yield _ready_url(process, log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
    assert list(home.iterdir()) == []


def _ready_url(process: subprocess.Popen[bytes], log: Path) -> str:
    url = None
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up:
        said = log.read_text(encoding="utf-8")
        assert process.poll() is None, said
        if url is None and (found := re.search(r"http://127\.0\.0\.1:\d+", said)):
            url = found[0]
        if url is not None and httpx.get(f"{url}/readyz").status_code == 200:
            return url
        time.sleep(0.05)
    raise TimeoutError(log.read_text(encoding="utf-8"))


@pytest.fixture
def tiny_model(tmp_path: Path) -> Callable[..., Path]:
    """Make a folder of a llama with random weights, which says nothing of sense, but at once."""

    def make(name: str = "tiny", *, poisoned_token: int | None = None, **generation_defaults: Any) -> Path:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(1)
        config = LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=WINDOW,
        )
        model = LlamaForCausalLM(config)
        if poisoned_token is not None:
            with torch.no_grad():
                model.model.embed_tokens.weight[poisoned_token] = float("nan")
        folder = tmp_path / name
        model.save_pretrained(folder)
        (folder / "generation_config.json").write_text(json.dumps(generation_defaults), encoding="utf-8")
        seal(folder)
        return folder

    return make


def seal(folder: Path) -> None:
    files = model_manifest.hash_folder(folder)
    manifest = Manifest(
        name=folder.name,
        public_model="tiny",
        digest=model_manifest.digest_of(files),
        files=files,
        source={},
        format="huggingface",
        window=WINDOW,
        created_by={},
    )
    model_manifest.write_manifest(folder, manifest)
