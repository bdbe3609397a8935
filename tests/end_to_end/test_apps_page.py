"""docs/apps.md, as an app developer would follow it: each of its examples is run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.installation import Installation

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]
PAGE = Path(__file__).parents[2] / "docs" / "apps.md"
OPENAI = "openai@7.59.0"


def examples(language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert found, language
    return found


def run(installation: Installation, argv: list[str], example: str, cwd: Path | None = None) -> str:
    code = example.replace("http://127.0.0.1:8080", installation.url)
    done = subprocess.run([*argv, code], capture_output=True, text=True, timeout=120, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pythons_examples_print_answers(installation: Installation) -> None:
    streamed, headers, requests = (run(installation, [sys.executable, "-c"], each) for each in examples("python"))
    assert len(streamed.strip()) > 10
    assert re.fullmatch(r"edge restricted.* True\n", headers), headers
    assert requests.strip()


def test_the_shells_example_prints_an_answer(installation: Installation) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    [example] = examples("sh")
    assert '"content":"' in run(installation, ["sh", "-c"], example)


def test_javascripts_example_prints_an_answer(installation: Installation, tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", OPENAI]
    installed = subprocess.run(install, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    if installed.returncode != 0:
        pytest.skip(f"npm cannot fetch {OPENAI} here: {installed.stderr[-200:]}")
    [example] = examples("js")
    argv = ["node", "--input-type=module", "--eval"]
    assert len(run(installation, argv, example, tmp_path).strip()) > 10
