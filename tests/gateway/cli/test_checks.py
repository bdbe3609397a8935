"""What `tidegate up` and `tidegate serve` refuse before anything starts, in one line that says what to do."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest


def refused(tmp_path: Path, settings: str, command: str = "serve") -> str:
    """Run the command with these settings, and return what it ended with."""
    path = tmp_path / "tidegate.yaml"
    path.write_text(settings, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "gateway.cli", command, "--settings", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": "/usr/bin:/bin", "TIDEGATE_STATE_DIR": str(tmp_path / "state")},
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_state_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a folder", encoding="utf-8")
    message = refused(tmp_path, "")
    assert str(tmp_path / "state") in message
    assert "state_dir" in message


@pytest.mark.parametrize("command", ["serve", "up"])
def test_a_credential_that_is_not_there_is_named_with_its_target(tmp_path: Path, command: str) -> None:
    message = refused(tmp_path, "targets: {cloud: {credential: {env: NO_SUCH_TOKEN}}}", command)
    assert "targets.cloud.credential: the environment variable NO_SUCH_TOKEN is not set" in message


@pytest.mark.parametrize("command", ["serve", "up"])
def test_a_policy_that_does_not_exist_is_refused_with_the_built_in_ones(tmp_path: Path, command: str) -> None:
    message = refused(tmp_path, "policy: balancd", command)
    assert "balancd" in message
    assert "did you mean `balanced`?" in message
    assert "private-first" in message


def test_a_policy_and_settings_that_do_not_join_are_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, "targets: {cloud: null}")
    assert "cloud" in message
    assert "Settings have: edge" in message


def test_a_port_that_somebody_listens_on_is_refused_with_the_setting_that_moves_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refused(tmp_path, f"listen: {{port: {port}}}")
        assert f"Port {port}" in message


def test_models_that_are_not_built_are_named_with_the_command_that_builds_them(tmp_path: Path) -> None:
    message = refused(tmp_path, "listen: {port: 0}", "up")
    assert "tidegate models build" in message
