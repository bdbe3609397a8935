"""What an operator asks of a running installation: how it stands, and what is wrong with it."""

from __future__ import annotations

import json

import pytest

from tests.support.installation import Installation

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]


def test_status_shows_the_targets_and_what_they_have_answered(installation: Installation) -> None:
    assert installation.chat("hello").status_code == 200

    def answered() -> bool:
        found = json.loads(installation.tidegate("status", "--json").stdout)
        return found["outcomes"]["requests"].get("ok", 0) > 0

    installation.until(answered, "an answer that is counted")
    shown = installation.tidegate("status")
    assert shown.returncode == 0
    assert "policy balanced" in shown.stdout
    assert {line.split()[0] for line in shown.stdout.splitlines() if " up " in line} == {"edge", "cloud"}


def test_the_doctor_finds_a_running_installation_well(installation: Installation) -> None:
    found = installation.tidegate("doctor", "--json")
    rows = {row["check"]: row for row in json.loads(found.stdout)["findings"]}
    assert [row for row in rows.values() if row["state"] == "fail"] == []
    assert found.returncode == 0
    assert {"policy", "disk", "memory", "clock", "target edge", "target cloud"} <= rows.keys()
    assert any("Tidegate answers at" in row["says"] for row in rows.values())
    assert rows["model smollm2-135m-instruct-q4_1"]["state"] == "ok"
