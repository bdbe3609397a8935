"""`tidegate models show`: size, speed on this machine, loss, and who vouches for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from edge_runtime.measuring.device_profile import DeviceProfile, ModelSpeed
from edge_runtime.models.showing import lines, show_version
from edge_runtime.models.store import ModelStore
from inference_protocol.runtime_state import RuntimeState, RuntimeStatus, ServedModel
from runtime_server import model_manifest
from runtime_server.model_manifest import GateFigures
from tests.edge_runtime.models.conftest import write_model

SPEED = ModelSpeed(ms_per_token={1: 8.0, 4: 16.0}, prefill_tokens_per_s=400.0, slots=4, measured_at=7)
FIGURES = GateFigures(
    tokens=9,
    mean_kl=0.5,
    top1_agreement=0.9,
    perplexity=12.0,
    perplexity_exact=10.0,
    greedy_agreement=0.25,
    tokenizer_round_trip=True,
    forced=True,
)


def test_a_person_is_told_size_speed_loss_and_that_it_was_forced(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "one")
    manifest = model_manifest.read_manifest(folder)
    model_manifest.write_manifest(folder, manifest.model_copy(update={"gate": FIGURES}))
    store = ModelStore(tmp_path / "models", dev=True)
    version = store.activate(store.publish(folder))
    told = dict(lines(show_version(store, version, {manifest.digest: SPEED})))
    assert told["version"].endswith("(active)")
    assert told["speed here"] == "125 tokens/s alone, 250 tokens/s with 4 at once, prompts at 400 tokens/s"
    assert told["loss"].startswith("mean KL 0.5, top-1 agreement 0.9, perplexity 12.0 (exact 10.0)")
    assert told["loss"].endswith("let in by --force")
    assert told["signed by"] == "nobody who is trusted here"
    assert "MB" in told["size"]
    unmeasured = dict(lines(show_version(store, version, {})))
    assert "tidegate bench" in unmeasured["speed here"]


def test_the_command_shows_one_or_all_that_are_served_with_what_was_measured_here(tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "models", dev=True)
    for name in ("one", "two"):
        store.activate(store.publish(write_model(tmp_path / name, content=name.encode()), name))
    digest = store.active("two").manifest().digest
    state = RuntimeState(
        status=RuntimeStatus.READY, models=(ServedModel(id="x", digest=digest, window=8),), ms_per_token={1: 10.0}
    )
    DeviceProfile(tmp_path / "device.json", now=lambda: 5.0).record_model(state)

    def show(*arguments: str) -> str:
        command = [sys.executable, "-m", "gateway.cli", "models", "show", *arguments]
        environment = os.environ | {"TIDEGATE_STATE_DIR": str(tmp_path), "COLUMNS": "200"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    rows = {row["model"]: row for row in json.loads(show("--json"))}
    assert rows["one"]["speed"] is None
    assert rows["two"]["speed"]["ms_per_token"] == {"1": 10.0}
    assert json.loads(show("two", "--json")) == rows["two"]
    assert "100 tokens/s alone" in show("two")
