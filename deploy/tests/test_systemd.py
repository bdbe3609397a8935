from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.tests.programs import run
from tests.support.running_gateway import free_port

UNITS = Path("deploy/systemd")


def unit_files() -> list[Path]:
    return sorted(UNITS.glob("*.service"))


@pytest.mark.parametrize("unit", unit_files(), ids=lambda unit: unit.stem)
def test_systemd_has_nothing_to_say_against_a_unit(unit: Path, tmp_path: Path) -> None:
    # What the unit runs is installed where it is deployed, not here.
    text = re.sub(r"^(Exec\w+=)/opt/tidegate/bin/tidegate", rf"\1{sys.executable}", unit.read_text(), flags=re.M)
    copy = tmp_path / unit.name
    copy.write_text(text.replace("After=network-online.target tidegate-edge.service", "After=network-online.target"))
    done = run("systemd-analyze", "verify", str(copy))
    assert (done.returncode, done.stderr) == (0, "")  # it exits 0 on unknown keys, and only warns


@pytest.mark.parametrize("unit", unit_files(), ids=lambda unit: unit.stem)
def test_a_unit_may_do_little(unit: Path) -> None:
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit))
    assert done.returncode == 0, done.stdout


def test_the_edge_service_has_no_network() -> None:
    text = (UNITS / "tidegate-edge.service").read_text()
    assert "PrivateNetwork=yes" in text
    assert "RestrictAddressFamilies=AF_UNIX\n" in text


def test_what_a_unit_runs_tells_systemd_that_it_serves_and_stops(tmp_path: Path) -> None:
    [command] = re.findall(r"^ExecStart=/opt/tidegate/bin/tidegate (.*)$", _text("gateway"), flags=re.M)
    settings = tmp_path / "tidegate.yaml"
    settings.write_text(f"listen: {{port: {free_port()}}}\nadmin: {{port: {free_port()}}}\n")
    argv = command.replace("/etc/tidegate/tidegate.yaml", str(settings)).split()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        environment = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify"), "TIDEGATE_STATE_DIR": str(tmp_path)}
        with subprocess.Popen([sys.executable, "-m", "gateway.cli", *argv], env=environment) as process:
            try:
                assert manager.recv(1000).startswith(b"READY=1")
                process.send_signal(signal.SIGTERM)
                assert manager.recv(1000).startswith(b"STOPPING=1")
                assert process.wait(60) == 0
            finally:
                process.kill()


def _text(name: str) -> str:
    return (UNITS / f"tidegate-{name}.service").read_text()


def test_the_user_and_the_folders_are_made_on_a_clean_system(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    root = f"--root={tmp_path}"
    users = run("systemd-sysusers", root, str((UNITS / "tidegate.sysusers.conf").absolute()))
    folders = run("systemd-tmpfiles", root, "--create", str((UNITS / "tidegate.tmpfiles.conf").absolute()))

    assert (users.returncode, folders.returncode, folders.stderr) == (0, 0, "")
    assert "tidegate:" in (tmp_path / "etc" / "passwd").read_text()
    modes = {name: oct((tmp_path / name).stat().st_mode & 0o777) for name in ("var/lib/tidegate", "etc/tidegate")}
    assert modes == {"var/lib/tidegate": "0o700", "etc/tidegate": "0o755"}
    assert (tmp_path / "etc" / "tidegate" / "credentials").stat().st_mode & 0o777 == 0o700
