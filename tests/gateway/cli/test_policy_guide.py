"""docs/policies.md, followed step by step: what it says to save is saved, what it shows is what comes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from gateway.cli.policy import app
from gateway.policies.document import read_document
from gateway.policies.examine import examine
from gateway.policies.wiring import demands_of
from gateway.settings_file import load_settings
from routing_policies.lab.prover import Prover
from routing_policies.policy.loader import load_policy
from tests.support.recorded_traffic import recorded_traffic

DOC = (Path(__file__).parents[3] / "docs" / "policies.md").read_text(encoding="utf-8")
GUIDE = DOC.split("## From nothing to a proved policy\n")[1].split("\n## ")[0]


def test_the_guide_can_be_followed_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    records = recorded_traffic(load_policy("balanced"), 2000)
    Path("records").mkdir()
    Path("records/requests.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    ran: set[str] = set()
    for kind, block in re.findall(r"```(yaml|console)\n(.*?)```", GUIDE, re.DOTALL):
        if kind == "yaml":
            Path("site.yaml").write_text(block, encoding="utf-8")
            continue
        for command, shown in re.findall(r"^\$ tidegate policy (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            ran.add(command.split()[0])
            assert _plain(CliRunner().invoke(app, shlex.split(command)).output) == _plain(shown), command
    assert ran == {"prove", "check", "explain", "test", "matrix", "diff", "simulate"}


def test_every_command_stands_on_the_page() -> None:
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        assert f"`{name}`" in DOC or f"tidegate policy {name}" in DOC


def test_the_settings_that_the_page_gives_reach_all_that_the_policy_names(tmp_path: Path) -> None:
    block = DOC.split("## Built-in policies")[1].split("```yaml\n")[1].split("```")[0]
    file = tmp_path / "tidegate.yaml"
    file.write_text(f"state_dir: {tmp_path}\n{block}", encoding="utf-8")
    settings = load_settings(file)
    candidate = examine(read_document(settings.policy), demands_of(settings), Prover(), now_s=0.0)
    assert set(candidate.loaded.policy.targets) == {"edge", "onprem", "cloud"}


def _plain(output: str) -> str:
    """Without spaces at the ends of lines, and without the digest, which any new field of the document changes."""
    text = "\n".join(line.rstrip() for line in output.splitlines()).strip("\n")
    return re.sub(r"\([0-9a-f]{12}\)", "(digest)", text)
