from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest
from onnx import TensorProto, helper

from gateway.settings import default_state_dir

# A test says what is right, not how fast: on a busy machine an example may take any time.
hypothesis.settings.register_profile("house", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("house")

EDGE_MODEL = "smollm2-135m-instruct-q4_1"
CLOUD_MODEL = "smollm2-135m-instruct-f32"
EMBEDDING_MODELS = ("all-minilm-l6-v2", "all-minilm-l6-v2-f32")


@pytest.fixture(scope="session", autouse=True)
def _subnormal_numbers_on_this_thread() -> None:
    """Keep floating point of the main thread as IEEE 754 has it, which Hypothesis insists on.

    ONNX Runtime's first session of a process decides whether subnormal numbers are zero, also on the thread that makes
    it; the engine's sessions want them to be. So the first one is a session that does not.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime  # not before the variable is set

    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    other = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "first", [value], [other])
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """Where the default models stand. Tests that ask for it carry the marker `models`."""
    folder = default_state_dir() / "models"
    for name in (EDGE_MODEL, CLOUD_MODEL, *EMBEDDING_MODELS):
        if not (folder / name / "manifest.json").is_file():
            pytest.skip(f"{folder / name} is not built: run `make models`")
    return folder


@pytest.fixture(scope="session")
def edge_model(models_dir: Path) -> Path:
    return models_dir / EDGE_MODEL


@pytest.fixture(scope="session")
def cloud_model(models_dir: Path) -> Path:
    return models_dir / CLOUD_MODEL
