"""docs/privacy.md shows settings and policies that load, commands that run, and tests that are there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from gateway.access_settings import Auth
from gateway.detector_settings import DetectorSettings
from gateway.settings import Settings
from routing_policies.policy.model import Answers, AnswerScanning, FindingTag, Target

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def example(*keys: str) -> Any:
    """What the one example says that has these keys, and no others."""
    (found,) = [parsed for block in blocks("yaml") if set(keys) == (parsed := yaml.safe_load(block)).keys()]
    return found if len(keys) > 1 else found[keys[0]]


def test_every_example_is_read_by_what_it_is_for() -> None:
    known = {"auth", "targets", "detectors", "answers", "edge"}
    assert {key for block in blocks("yaml") for key in yaml.safe_load(block)} == known
    detectors = DetectorSettings.model_validate(example("detectors"))
    assert detectors.presidio is not None
    assert detectors.classifier is not None
    assert Settings.model_validate(example("detectors", "edge")).detectors.pictures is not None
    Auth.model_validate({"keys": [{**key, "secret_sha256": "0" * 64} for key in example("auth")["keys"]]})
    Target.model_validate_json(yaml_as_json(example("targets")["cloud"]))
    Answers.model_validate_json(yaml_as_json(example("answers")))


def yaml_as_json(value: Any) -> str:
    return json.dumps(value)


def test_its_command_runs() -> None:
    (command,) = [line for block in blocks("sh") for line in block.splitlines() if line]
    words = command.split()
    assert words[:3] == [".venv/bin/python", "-m", "bench.privacy"]
    helped = subprocess.run(
        [sys.executable, *words[1:3], "--help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=100
    )
    for option in words[3:]:
        assert not option.startswith("--") or option in helped.stdout


@pytest.mark.parametrize("link", re.findall(r"\]\(\.\./(tests/[^)]+)\)", TEXT))
def test_the_tests_that_it_names_are_there(link: str) -> None:
    assert (ROOT / link).is_file()


def test_every_tag_and_every_way_to_treat_answers_has_its_row() -> None:
    for word in (*get_args(FindingTag), *AnswerScanning):
        assert f"| `{word}` |" in TEXT
