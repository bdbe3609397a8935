"""The table of models in README.md and docs/models.md is what the benchmark found, figure by figure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.parts.models_table import PAGES, RESULTS, between_marks, table


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_table_says_what_was_measured(page: Path) -> None:
    made = table(json.loads(RESULTS.read_bytes()))
    assert between_marks(page.read_text(encoding="utf-8")) == made, "run: python -m bench.parts.models_table"


def test_the_exact_import_keeps_its_budgets_of_quality() -> None:
    results = json.loads(RESULTS.read_bytes())
    quality = [check for check in results["checks"] if "KL" in check["name"] or "agreement" in check["name"]]
    assert len(quality) == 3
    assert all(check["ok"] for check in quality)
