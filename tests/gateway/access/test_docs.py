"""docs/security.md: its commands run, its settings are settings, and its rows name tests that are there."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.access_settings import Auth
from gateway.principal import Role
from gateway.settings import Listen, Settings
from tests.support.scripted_runtime import ScriptedRuntime
from tests.support.serving_process import serving

TESTS = Path(__file__).parents[2]
TEXT = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| .* \| `([\w/]+\.py)::(\w+)` \|$", TEXT, re.MULTILINE)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


async def test_its_commands_run_one_after_the_other(tmp_path: Path) -> None:
    (script,) = blocks("sh")
    async with (
        ScriptedRuntime() as edge,
        ScriptedRuntime() as cloud,
        serving(tmp_path, edge, cloud) as found,
    ):
        # The gateway's port is the test's own, and `tidegate` that of this environment.
        (tmp_path / "tidegate").write_text(f'#!/bin/sh\nexec {sys.executable} -m gateway.cli "$@"\n')
        (tmp_path / "tidegate").chmod(0o700)
        told = script.replace("http://127.0.0.1:8080", found.url)
        assert told != script
        environment = {
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHONPATH": str(TESTS.parent),
            "TIDEGATE_SETTINGS": str(found.settings),
        }
        shell = await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", told),
            cwd=tmp_path,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = (await shell.communicate())[0].decode()
        assert shell.returncode == 0, output
        key = (tmp_path / "phone.key").read_text().strip()
        assert '"object":"list"' in output
        assert f"{key.partition('.')[0]}  phones" in output
        assert "is revoked" in output
        assert key.partition(".")[2] not in output


def test_its_settings_are_settings(tmp_path: Path) -> None:
    found = [yaml.safe_load(block) for block in blocks("yaml")]
    assert {name for each in found for name in each} == {"auth", "listen"}
    merged: dict[str, Any] = {}
    for each in found:
        for name, value in each.items():
            merged[name] = {**merged.get(name, {}), **value}
    settings = Settings(state_dir=tmp_path, **merged)
    assert settings.auth.issuers["corp"].role_of == {"llm-users": "inference", "llm-admins": "operator"}
    for each in found:
        Auth.model_validate(each.get("auth", {}))
        Listen.model_validate(each.get("listen", {}))


@pytest.mark.parametrize(("path", "function"), ROWS, ids=[function for _, function in ROWS])
def test_each_row_names_a_test_that_is_there(path: str, function: str) -> None:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    found = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    assert function in found


def test_every_role_has_its_row() -> None:
    assert len(ROWS) >= 14
    for role in Role:
        assert f"| `{role.value}` |" in TEXT
