"""What the doctor says of an installation that is well, and of one fault after another."""

from __future__ import annotations

import http.server
import json
import os
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from gateway.cli.doctor import checkup, machine
from gateway.cli.doctor.command import doctor
from gateway.cli.doctor.finding import Finding, State
from gateway.settings import Settings
from tests.support.running_gateway import free_port

APP = typer.Typer()
APP.command()(doctor)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def server() -> Iterator[Callable[[int], str]]:
    """Start a server that answers everything with one status."""
    running: list[http.server.ThreadingHTTPServer] = []

    def start(status: int) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        found = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        running.append(found)
        threading.Thread(target=found.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{found.server_address[1]}"

    yield start
    for each in running:
        each.shutdown()
        each.server_close()


def run(folder: Path, settings: dict[str, Any], *arguments: str) -> Result:
    told = {
        "state_dir": str(folder),
        "listen": {"port": free_port()},
        "admin": {"port": free_port()},
        **settings,
    }
    file = folder.parent / "tidegate.yaml"
    file.write_text(json.dumps(told), encoding="utf-8")
    return CliRunner().invoke(APP, ["--settings", str(file), *arguments], env={"COLUMNS": "200"})


def findings(folder: Path, settings: dict[str, Any]) -> dict[str, Finding]:
    result = run(folder, settings, "--json")
    rows = [Finding(**{**row, "state": State(row["state"])}) for row in json.loads(result.stdout)["findings"]]
    assert result.exit_code == int(any(row.state is State.FAIL for row in rows))
    # Whatever is wrong comes with its way out.
    assert [row for row in rows if row.state is not State.OK and row.fix is None] == []
    return {row.check: row for row in rows}


def far(url: str, **fields: Any) -> dict[str, Any]:
    return {"endpoints": [url], "protocol": "openai", "models": {"smollm2-135m-instruct": "x"}, **fields}


def test_settings_that_cannot_be_read_are_the_one_finding(folder: Path) -> None:
    result = run(folder, {"lisen": {}}, "--json")
    [row] = json.loads(result.stdout)["findings"]
    assert (result.exit_code, row["check"], row["state"]) == (1, "settings", "fail")
    assert "lisen" in row["says"]


def test_models_that_are_not_there_and_a_policy_that_is_refused_are_told_with_what_mends_them(folder: Path) -> None:
    (folder.parent / "bad.yaml").write_text("apiVersion: tidegate/v1\nname: x\ntargetz: {}\n", encoding="utf-8")
    found = findings(folder, {"policy": str(folder.parent / "bad.yaml")})
    model = found["model smollm2-135m-instruct-q4_1"]
    assert (model.state, model.fix and "tidegate models build" in model.fix) == (State.FAIL, True)
    assert found["policy"].state is State.FAIL
    assert "bad.yaml:3:1" in found["policy"].says


def test_targets_are_probed_and_each_way_to_fail_has_its_own_fix(folder: Path, server: Callable[[int], str]) -> None:
    cases = {200: "ok", 401: "credential", 302: "sign in"}
    for status, wanted in cases.items():
        row = findings(folder, {"targets": {"cloud": far(server(status))}})["target cloud"]
        assert wanted in (row.fix or row.state), (status, row)
    nobody = findings(folder, {"targets": {"cloud": far(f"http://127.0.0.1:{free_port()}")}})["target cloud"]
    assert nobody.state is State.FAIL
    assert "targets.cloud.endpoints" in str(nobody.fix)
    assert findings(folder, {})["target edge"].state is State.WARN  # `tidegate up` starts it


def test_a_credential_that_cannot_be_read_is_named_and_never_shown(folder: Path, server: Callable[[int], str]) -> None:
    secret = folder.parent / "token"
    settings = {"targets": {"cloud": far(server(200), credential={"file": str(secret)})}}
    assert findings(folder, settings)["credential cloud"].state is State.FAIL
    secret.write_text("canary-7f3a", encoding="utf-8")
    secret.chmod(0o600)
    result = run(folder, settings, "--json")
    assert "canary-7f3a" not in result.output
    assert '"credential cloud"' in result.output


def test_a_port_that_somebody_else_has_is_told(folder: Path, server: Callable[[int], str]) -> None:
    port = int(server(404).rpartition(":")[2])
    row = findings(folder, {"listen": {"port": port}})[f"port {port}"]
    assert (row.state, "listen.port" in str(row.fix)) == (State.FAIL, True)


def test_what_others_can_reach_of_the_state_folder_is_told(folder: Path) -> None:
    assert findings(folder, {})["permissions"].state is State.OK
    (folder / "keys").mkdir(mode=0o700)
    key = folder / "keys" / "secret"
    key.write_bytes(b"x")
    key.chmod(0o644)
    row = findings(folder, {})["permissions"]
    assert (row.state, str(key) in row.says) == (State.FAIL, True)


def test_a_clock_that_was_set_back_is_told(folder: Path) -> None:
    (folder / "records").mkdir()
    later = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    (folder / "records" / "a.jsonl").write_text(
        json.dumps({"time": later, "kind": "decision"}) + "\n", encoding="utf-8"
    )
    assert "set back" in findings(folder, {})["clock"].says
    early = list(machine.clock(Settings(state_dir=folder), datetime(1970, 1, 2, tzinfo=UTC)))
    assert early[0].state is State.FAIL


def test_a_full_disk_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(folder)
    for free, state in ((0, State.FAIL), (300_000_000 // real.f_frsize, State.WARN)):
        values = [*real]
        values[4] = free  # f_bavail
        monkeypatch.setattr(machine.os, "statvfs", lambda _, values=values: os.statvfs_result(values))
        assert next(machine.disk(Settings(state_dir=folder))).state is state


def test_a_control_group_that_is_too_small_for_the_models_is_told(folder: Path, tmp_path: Path) -> None:
    own = Path("/proc/self/cgroup").read_text(encoding="utf-8").rpartition("::/")[2].strip()
    group = tmp_path / "cgroup" / own
    group.mkdir(parents=True)
    (tmp_path / "cgroup" / "memory.max").write_text("100000000\n", encoding="ascii")
    row = next(machine.memory(Settings(state_dir=folder), tmp_path / "cgroup"))
    assert (row.state, "control group allows 100 MB" in row.says) == (State.WARN, True)


def test_a_look_that_breaks_hides_none_of_the_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: Settings) -> Iterator[Finding]:
        raise ZeroDivisionError("no")
        yield

    monkeypatch.setattr(checkup, "LOOKS", (("broken", breaks), *checkup.LOOKS))
    found = findings(folder, {})
    assert found["broken"].state is State.FAIL
    assert found["clock"].state is State.OK


def test_the_table_shows_every_finding_and_warnings_fail_only_where_they_shall(folder: Path) -> None:
    settings = {"targets": {"edge": None, "cloud": None, "lab": far("http://127.0.0.1:9")}}
    shown = run(folder, settings)
    assert shown.exit_code == 1
    assert "→ see that it runs" in shown.stdout
    assert "to be mended" in shown.stdout
