"""Families that have no graph of ours, through onnxruntime-genai's model builder (extra `builder`).

The builder is a program of its own, since it loads torch. It gets no network and runs no code of the model's folder.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import onnx

from edge_runtime.build.bytes_per_token import bytes_per_token
from edge_runtime.build.errors import NotImportable, ToolsMissing
from edge_runtime.build.gguf.graphs import write_json
from edge_runtime.build.huggingface.folder import require_talk
from edge_runtime.build.huggingface.tensors import Precision
from edge_runtime.generation.genai_config import read_genai_config

_TOOLS = ("onnxruntime_genai", "onnx_ir", "torch", "transformers")
# One row of logits; neither the model's own code nor anybody's account.
_OPTIONS = ("prune_lm_head=true", "hf_remote=false", "hf_token=false")


def require_builder() -> None:
    """Look whether the extra `builder` is installed, without importing it.

    Raises:
        ToolsMissing: It is not.
    """
    missing = [name for name in _TOOLS if importlib.util.find_spec(name) is None]
    if missing:
        raise ToolsMissing(
            f"A model of this family needs {', '.join(missing)}. Install the extra: "
            "pip install -c constraints.txt '.[builder]'"
        )


def build_folder(source: Path, precision: Precision, folder: Path, cache: Path, lock: int) -> int:
    """Fill an empty folder; return the model's window.

    Args:
        source: The Hugging Face folder.
        precision: How weights are kept.
        folder: Where to write.
        cache: A folder for what the builder leaves aside.
        lock: A descriptor that the builder inherits, so that the build counts as running for as long as it does.

    Raises:
        NotImportable: The builder does not know the family or the precision, or what it made cannot be served.
    """
    if precision is Precision.FP16:
        raise NotImportable("The model builder makes float16 for GPUs alone; choose --precision int8 or int4.")
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", str(source), "-o", str(folder)]
    command += ["-p", precision.value, "-e", "cpu", "-c", str(cache), "--extra_options", *_OPTIONS]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "TMPDIR": str(cache)}
    done = subprocess.run(  # noqa: S603  # a fixed command; the paths are arguments of their own
        command, capture_output=True, text=True, env=environment, pass_fds=(lock,), check=False
    )
    if done.returncode != 0 or not (folder / "genai_config.json").is_file():
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise NotImportable(f"The model builder failed: {lines[-1] if lines else 'it does not say why'}")
    _count_bytes(folder)
    config = read_genai_config(folder)
    require_talk(folder, rows=config.vocab_size)
    return config.context_length


def _count_bytes(folder: Path) -> None:
    path = folder / "genai_config.json"
    config = json.loads(path.read_bytes())
    decoder = config["model"]["decoder"]
    graph = onnx.load(str(folder / decoder["filename"]), load_external_data=False)
    decoder["bytes_per_token"] = bytes_per_token(graph)
    write_json(path, config)
