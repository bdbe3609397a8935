from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest

from gateway.settings import default_state_dir

# A test says what is right, not how fast: on a busy machine an example may take any time.
hypothesis.settings.register_profile("house", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("house")

EDGE_MODEL = "smollm2-135m-instruct-q4_1"
CLOUD_MODEL = "smollm2-135m-instruct-f32"


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """Where the default models stand. Tests that ask for it carry the marker `models`."""
    folder = default_state_dir() / "models"
    for name in (EDGE_MODEL, CLOUD_MODEL):
        if not (folder / name / "manifest.json").is_file():
            pytest.skip(f"{folder / name} is not built: run `make models`")
    return folder


@pytest.fixture(scope="session")
def edge_model(models_dir: Path) -> Path:
    return models_dir / EDGE_MODEL


@pytest.fixture(scope="session")
def cloud_model(models_dir: Path) -> Path:
    return models_dir / CLOUD_MODEL
