"""The table of the default model beside its alternatives, out of `bench/results/models.json`.

`python -m bench.parts.models_table` puts it in the places between the marks in README.md and docs/models.md.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "bench/results/models.json"
PAGES = (ROOT / "README.md", ROOT / "docs/models.md")
BEGIN, END = "<!-- table: bench/results/models.json -->", "<!-- end of table -->"
_PLACE = re.compile(f"{re.escape(BEGIN)}\n(.*?)\n{re.escape(END)}", re.DOTALL)
COLUMNS = "| edge graph | size | mean KL | top-1 agreement | perplexity | decode | prefill |"


def table(results: dict[str, Any]) -> str:
    """The table as Markdown."""
    lines = [COLUMNS, "| --- |" + " --- |" * (COLUMNS.count("|") - 2)]
    for row in results["raw"]["models"]:
        name = f"**{row['name']}**" if row["name"].startswith("exact") else row["name"]
        figures = (
            f"{row['mb']:.0f} MB",
            f"{row['mean_kl']:.2g}",
            f"{row['top1_agreement']:.3f}",
            f"{row['perplexity']:.2f}",
            f"{row['tokens_per_s']:.0f} tok/s",
            f"{row['prefill_tokens_per_s']:.0f} tok/s",
        )
        lines.append(f"| {name} | {' | '.join(figures)} |")
    return "\n".join(lines)


def between_marks(page: str) -> str:
    """What stands between the marks of a page."""
    found = _PLACE.search(page)
    assert found is not None, "the page has no marks"
    return found[1]


def main() -> None:
    made = table(json.loads(RESULTS.read_bytes()))
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        path.write_text(_PLACE.sub(lambda _: f"{BEGIN}\n{made}\n{END}", page), encoding="utf-8")


if __name__ == "__main__":
    main()
