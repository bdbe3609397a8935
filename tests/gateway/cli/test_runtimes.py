from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Literal

import pytest

from gateway.cli import measure
from gateway.cli.runtimes import cloud_argv, edge_argv, edge_environment
from gateway.settings import ModelSettings, Settings


@pytest.mark.parametrize(("signatures", "asked"), [("required", True), ("dev", False)])
def test_runtimes_are_told_whose_models_are_trusted_unless_anything_may_run(
    tmp_path: Path, signatures: Literal["required", "dev"], asked: bool
) -> None:
    key = "A" * 43 + "="
    settings = Settings(state_dir=tmp_path, models=ModelSettings(signatures=signatures, trusted_keys={"acme": key}))
    for argv in (edge_argv(settings), cloud_argv(settings, 8090)):
        assert (f"--trusted-key=acme={key}" in argv) == asked
        told = dict(itertools.pairwise(argv)).get("--trusted-keys")
        assert told == (str(tmp_path / "keys" / "models") if asked else None)


@pytest.mark.parametrize(
    ("field", "value", "option"),
    [
        ("keep_alive_s", 300.0, ["--keep-alive-s", "300.0"]),
        ("keep_alive_s", 0.0, ["--keep-alive-s", "0.0"]),
        ("unload_below_mib", 512, ["--unload-below-mib", "512"]),
        ("threads", 3, ["--threads", "3"]),
    ],
)
def test_what_is_set_of_the_edge_is_passed_on_and_what_is_not_is_left_to_it(
    tmp_path: Path, field: str, value: object, option: list[str]
) -> None:
    plain = edge_argv(Settings(state_dir=tmp_path))
    assert option[0] not in plain
    assert plain[plain.index("--device-profile") + 1] == str(tmp_path / "device.json")
    argv = edge_argv(Settings.model_validate({"state_dir": tmp_path, "edge": {field: value}}))
    at = argv.index(option[0])
    assert argv[at : at + 2] == option


def test_the_edge_runtime_is_started_with_huge_pages_unless_the_environment_tells_the_c_library_otherwise():
    assert edge_environment({"HOME": "/"}) == {"HOME": "/", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    chosen = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}
    assert edge_environment(chosen) == chosen


def test_a_model_is_measured_in_an_environment_like_the_one_it_is_served_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = list[tuple[list[str], dict[str, str]]]()
    monkeypatch.setenv("TIDEGATE_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setattr(os, "execve", lambda _, argv, environment: started.append((argv, environment)))
    measure.bench()
    [(argv, environment)] = started
    assert argv[1:4] == ["-m", "edge_runtime.measuring", "bench"]
    assert environment == edge_environment(os.environ)


def test_models_of_tensors_are_served_by_the_edge_under_their_names(tmp_path: Path) -> None:
    edge = {"tensor_models": ["silero-vad", "magika"]}
    settings = Settings.model_validate({"state_dir": tmp_path, "edge": edge})
    argv = edge_argv(settings)
    given = [value for option, value in itertools.pairwise(argv) if option == "--tensor-model-dir"]
    assert given == [str(tmp_path / "models" / name) for name in ("silero-vad", "magika")]
    assert argv[argv.index("--tensor-keep-alive-s") + 1] == "600"
    kept = Settings.model_validate({"state_dir": tmp_path, "edge": {**edge, "tensor_keep_alive_s": None}})
    assert "--tensor-keep-alive-s" not in edge_argv(kept)
    assert settings.targets["edge"].models["silero-vad"] == "silero-vad"
    assert "silero-vad" not in settings.targets["cloud"].models
    assert "--tensor-model-dir" not in edge_argv(Settings(state_dir=tmp_path))


def test_runtimes_are_told_where_telemetry_goes_and_what_a_line_of_their_log_is(tmp_path: Path) -> None:
    telling = {"otlp_endpoint": "http://127.0.0.1:4318", "spool_bytes": 1 << 20, "log_format": "json"}
    settings = Settings.model_validate({"state_dir": tmp_path, "telemetry": telling})
    for argv in (edge_argv(settings), cloud_argv(settings, 8090)):
        told = dict(itertools.pairwise(argv))
        assert told["--otlp-endpoint"] == "http://127.0.0.1:4318"
        assert told["--otlp-spool"] == str(tmp_path / "spool")
        assert told["--otlp-spool-bytes"] == str(1 << 20)
        assert told["--log-format"] == "json"
    assert "--otlp-spool" not in edge_argv(Settings(state_dir=tmp_path))
