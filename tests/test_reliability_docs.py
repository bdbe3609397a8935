"""docs/reliability.md: every row of its table names a test that exists, and every fault there is has its row."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from inference_protocol.errors import error_classes
from tests.chaos.faults import AFTER_CONTENT, BEFORE_CONTENT, HARMLESS

TESTS = Path(__file__).parent
TEXT = (TESTS.parent / "docs" / "reliability.md").read_text(encoding="utf-8")
TABLE = TEXT.split("\n## The table\n", 1)[1]
ROWS = [row for row in TABLE.splitlines() if row.startswith("| ") and not row.startswith(("| **", "| ---", "| fault"))]
FAULTS = {fault.name.replace(" ", "-") for fault in (*BEFORE_CONTENT, *AFTER_CONTENT, *HARMLESS)}


@pytest.mark.parametrize("row", ROWS, ids=[row.split("|")[1].strip() for row in ROWS])
def test_each_row_names_a_test_that_exists(row: str) -> None:
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert len(cells) == 4
    assert all(cells)
    named = re.fullmatch(r"`([\w/]+\.py)::(test_\w+)(?:\[([\w-]+)\])?`", cells[3])
    assert named is not None, cells[3]
    path, function, case = named.groups()
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    found = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    assert function in found
    assert case is None or case in FAULTS


def test_every_code_in_the_page_is_one_that_an_error_has() -> None:
    known = {cls.code for cls in error_classes()}
    named = set(re.findall(r"\b[45]\d\d `([a-z_]+)`", TEXT)) | set(re.findall(r"error event `([a-z_]+)`", TEXT))

    assert named
    assert named <= known


def test_there_are_rows_for_every_part_of_a_requests_way() -> None:
    assert len(ROWS) >= 50
