"""Runs the heavy tools, each as a process of its own: its memory goes back, and its chatter stays out of the way."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.build.errors import ToolFailed, ToolsMissing

_TOOLS = ("accelerate", "gguf", "onnx", "onnx_ir", "onnxruntime_genai", "torch", "transformers")
_LINES_SHOWN = 15


def require_tools() -> None:
    """Look whether the extra `build` is installed, without importing it.

    Raises:
        ToolsMissing: It is not.
    """
    missing = [name for name in _TOOLS if importlib.util.find_spec(name) is None]
    if missing:
        raise ToolsMissing(
            f"Building a model needs {', '.join(missing)}. Install the extra: pip install -c constraints.txt '.[build]'"
        )


@dataclass(frozen=True, slots=True)
class Converters:
    """The two conversions.

    Attributes:
        scratch: A folder for what the tools cache, so that nothing is written to the home folder.
        lock: The descriptor of the build's lock, for the processes to hold too.
    """

    scratch: Path
    lock: int

    def gguf_to_huggingface(self, gguf: Path, destination: Path) -> None:
        """Expand a GGUF file to a float32 Hugging Face folder.

        Raises:
            ToolFailed: The conversion ended with an error.
        """
        self._run("edge_runtime.build.gguf_to_huggingface", str(gguf), str(destination))

    def huggingface_to_onnx(
        self, source: Path, destination: Path, *, precision: str, options: Mapping[str, str]
    ) -> None:
        """Make a graph for the CPU, in onnxruntime-genai's folder format.

        Raises:
            ToolFailed: The model builder ended with an error.
        """
        chosen = [f"{name}={value}" for name, value in options.items()]
        where = ["--input", str(source), "--output", str(destination), "--cache_dir", str(self.scratch)]
        how = ["--precision", precision, "--execution_provider", "cpu", "--extra_options", "hf_token=false", *chosen]
        self._run("onnxruntime_genai.models.builder", *where, *how)

    def _run(self, module: str, *arguments: str) -> None:
        offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HOME": str(self.scratch)}
        # The builder takes the commit of whatever repository it is installed in for its own and writes it into the
        # graph, which would then have another digest after every commit.
        repeatable = {"GIT_DIR": os.devnull}
        done = subprocess.run(  # noqa: S603 - our own interpreter and modules that this file names
            [sys.executable, "-m", module, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=os.environ | offline | repeatable | {"TMPDIR": str(self.scratch)},
            pass_fds=(self.lock,),
            check=False,
        )
        if done.returncode != 0:
            end = "\n".join(done.stdout.splitlines()[-_LINES_SHOWN:])
            killed = " It was killed: is there enough memory (2.5 GB)?" if done.returncode == -9 else ""
            raise ToolFailed(f"{module} ended with status {done.returncode}.{killed} The end of what it said:\n{end}")
