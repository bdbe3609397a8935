"""Sessions on ONNX Runtime's CPU provider, in the runtime's own process."""

from __future__ import annotations

from pathlib import Path

import onnxruntime as ort

from edge_runtime.providers.sessions import CPU_PROVIDER, ORT_ERRORS, session_options
from runtime_server.model_manifest import ModelUnsupported

_WEIGHTS_ELSEWHERE = ("external data", "external initializer")
_LFS = b"version https://git-lfs"
_HEAD_BYTES = 256


def open_on_cpu(path: Path, threads: int) -> ort.InferenceSession:
    """Load a graph on the CPU.

    Raises:
        ModelUnsupported: It cannot be loaded. The message says what is wrong with its files, where that can be seen.
    """
    try:
        return ort.InferenceSession(str(path), session_options(threads), providers=[CPU_PROVIDER])
    except ORT_ERRORS as error:
        raise ModelUnsupported(f"{path} cannot be loaded: {_cause(path, error)}") from error


def _cause(path: Path, error: Exception) -> str:
    """Say what is wrong with a file, which ONNX Runtime words for those who know its sources."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES).lstrip()
    except OSError as fault:
        return f"the file cannot be read: {fault.strerror}."
    if head.startswith(_LFS):
        return "it is a pointer of git-lfs and not the graph; fetch the file that it points to."
    if head[:1] == b"<":
        return "it is a web page and not a graph; fetch the file itself."
    text = str(error)
    if any(sign in text.lower() for sign in _WEIGHTS_ELSEWHERE):
        return f"a file with its weights is missing or too short; fetch the model with all its files ({_line(text)})."
    return text


def _line(text: str) -> str:
    return text.strip().splitlines()[0][:300]
