"""docs/architecture.md: every folder of the house is on it, and whatever it or another page links to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_house import PACKAGES, tracked_files

ROOT = Path(__file__).parent.parent
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md")), ROOT / "deploy" / "README.md"]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_package_and_folder_of_code_is_listed() -> None:
    folders = {path.parent.relative_to(ROOT).as_posix() for path in tracked_files() if path.suffix in {".py", ".yaml"}}
    ours = {folder for folder in folders if folder.partition("/")[0] in PACKAGES}

    assert ours
    assert {folder for folder in ours if f"`{folder}`" not in TEXT} == set()


def test_every_folder_that_is_listed_is_there() -> None:
    listed = re.findall(rf"`((?:{'|'.join(PACKAGES)}|tests|bench|deploy)(?:/[a-z_]+)*)`", TEXT)

    assert listed
    assert [folder for folder in listed if not (ROOT / folder).is_dir()] == []


def test_the_way_of_a_request_has_eight_steps_each_with_a_file_of_its_own() -> None:
    way = TEXT.split("## The way of a request\n", 1)[1].split("\n## ", 1)[0]
    first_links = re.findall(r"^\d\. \[`([\w/]+\.py)`\]", way, re.MULTILINE)

    assert len(set(first_links)) == len(first_links) == 8


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_link_of_a_page_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    found = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    broken = [link for link in found if not link.startswith(("http://", "https://")) and not _leads(page, link)]

    assert broken == []


def _leads(page: Path, link: str) -> bool:
    path, _, heading = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not heading or heading in _headings(target))


def _headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
