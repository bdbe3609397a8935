"""The gateway benchmark as a picture: how many a second, what is added, and what each part costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

_COLOURS = {"Tidegate": "#0b6e99", "bare proxy": "#c8553d", "nginx": "#8a8a8a", "direct": "#333333"}


def draw(raw: dict[str, Any], path: Path) -> None:
    """Write the picture."""
    figure = Figure(figsize=(13, 7.6), layout="constrained")
    (whole, added, first), (price, chunk, memory) = figure.subplots(2, 3)
    rows: list[dict[str, Any]] = raw["rows"]
    of_1_kb = [row for row in rows if row["prompt_kb"] == 1 and row["answer"] == "whole"]
    _lines(whole, of_1_kb, "connections", "per_s", "requests/s, 1 KB prompts")
    whole.set_yscale("log")
    alone = [row for row in rows if row["connections"] == 1 and row["answer"] == "whole" and row["program"] != "direct"]
    _lines(added, alone, "prompt_kb", "added_p50_ms", "ms added to the median, one connection")
    added.set_xlabel("KB of prompt")
    added.set_ylim(bottom=0)
    paced = [row for row in rows if "5 ms" in row["answer"] and row["program"] != "direct"]
    _lines(first, paced, "connections", "added_first_ms", "ms added to the first event, 5 ms apart")
    fast = [row for row in rows if "fast" in row["answer"] and row["program"] != "direct"]
    _lines(chunk, fast, "connections", "cpu_us_per_chunk", "us of processor time an event")
    chunk.set_ylim(bottom=0)
    parts = {name: each["cpu_us"] for name, each in raw["parts"].items()}
    _bars(price, parts, "us of processor time a request")
    _bars(memory, raw["resident_mb"], "MB of resident memory")
    figure.savefig(path, dpi=120)


def _lines(axes: Axes, rows: list[dict[str, Any]], over: str, figure: str, title: str) -> None:
    for name in dict.fromkeys(row["program"] for row in rows):
        own = [row for row in rows if row["program"] == name]
        axes.plot([r[over] for r in own], [r[figure] for r in own], marker="o", label=name, color=_COLOURS.get(name))
    axes.set_xscale("log")
    ticks = sorted({row[over] for row in rows})
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(over)
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def _bars(axes: Axes, figures: dict[str, float], title: str) -> None:
    bars = axes.barh(list(figures), list(figures.values()), color="#0b6e99")
    axes.bar_label(bars, fmt="%.0f", padding=2)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_title(title, fontsize=10)
