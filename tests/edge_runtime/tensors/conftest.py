from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.edge_runtime.serving_process import edge_process
from tests.support.tensor_folders import (
    MEAN_AXES,
    TYPES,
    counting,
    every_type,
    reciprocal,
    running_mean,
    without_weights,
    write_folder,
)


@pytest.fixture(scope="package")
def edge(edge_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """One edge runtime with small models of tensors beside the chat model."""
    folder = tmp_path_factory.mktemp("tensors")
    axes = {f"{name.lower()}{end}": 0 for name in TYPES for end in ("", "_out")}
    folders = [
        write_folder(folder / "every-type", {"1": (every_type(), {"batch_axes": axes})}),
        write_folder(
            folder / "running-mean",
            {
                "2": (running_mean(), {"batch_axes": MEAN_AXES, "states": {"state": "state_next"}}),
                "1": (reciprocal(), {}),
            },
            wait_ms=20,
        ),
        write_folder(folder / "counting", {"1": (counting(), {})}),
        write_folder(folder / "no-weights", {"1": (without_weights(), {})}),
    ]
    options = [option for each in folders for option in ("--tensor-model-dir", str(each))]
    missing = ["--tensor-model-dir", str(folder / "not-there")]
    # Each is taken out of memory as soon as nobody asks, so that every test meets models that are not loaded.
    with edge_process(edge_model, "--slots", "1", "--tensor-keep-alive-s", "0", *options, *missing) as client:
        yield client
