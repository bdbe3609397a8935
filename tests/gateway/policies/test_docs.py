"""What docs/policies.md says of rolling out is so: its commands exist, and its settings are settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from gateway.cli.policy import app
from gateway.settings import Settings

DOC = (Path(__file__).parents[3] / "docs" / "policies.md").read_text(encoding="utf-8")
SECTION = DOC.partition("\n## Rolling out\n")[2].partition("\n## ")[0]
COMMANDS = sorted(set(re.findall(r"tidegate policy ((?:canary |shadow )?[a-z]+)", SECTION)))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_named_exists(command: str) -> None:
    assert CliRunner().invoke(app, [*command.split(), "--help"]).exit_code == 0


def test_an_option_that_is_shown_is_taken() -> None:
    shown = re.findall(r"^\$ tidegate policy ((?:canary |shadow )?[a-z]+)(.*)$", SECTION, re.MULTILINE)
    assert len(shown) > 6
    for command, rest in shown:
        text = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "200"}).output
        assert not [option for option in re.findall(r"--[a-z-]+", rest) if option not in text]


def test_the_settings_that_are_shown_are_settings(tmp_path: Path) -> None:
    first, signed = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL))

    settings = Settings(state_dir=tmp_path, **first, **signed)

    assert set(settings.targets) == {"edge", "clinic", "cloud"}
    assert [approver.person for approver in settings.rollout.approvers] == ["ada", "ben"]
