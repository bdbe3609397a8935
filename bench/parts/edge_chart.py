"""The edge benchmark as a picture: who writes how fast, and who begins how soon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

_COLOURS = {"tidegate": "#0b6e99", "llama.cpp": "#c8553d", "onnxruntime-genai": "#8a8a8a"}


def draw(raw: dict[str, Any], path: Path) -> None:
    """Write the picture: a row for each set of weights."""
    models: dict[str, dict[str, dict[str, float]]] = raw["models"]
    figure = Figure(figsize=(10, 3.6 * len(models)), layout="constrained")
    rows = figure.subplots(len(models), 2, squeeze=False)
    for (left, right), (name, engines) in zip(rows, models.items(), strict=True):
        _lines(left, engines, "tokens_per_s_", f"{name}: requests at once", "tokens/s, prompts included")
        _lines(right, engines, "ttft_ms_", f"{name}: tokens of prompt", "ms to the first token (less is better)")
        right.set_xscale("log")
        left.set_ylim(bottom=0)
        right.set_yscale("log")
    figure.savefig(path, dpi=120)


def _lines(axes: Axes, engines: dict[str, dict[str, float]], prefix: str, what: str, unit: str) -> None:
    for engine, found in engines.items():
        points = {int(key.removeprefix(prefix)): value for key, value in found.items() if key.startswith(prefix)}
        if points:
            axes.plot(list(points), list(points.values()), marker="o", label=engine, color=_COLOURS.get(engine))
    axes.set_xticks(sorted({int(k.removeprefix(prefix)) for f in engines.values() for k in f if k.startswith(prefix)}))
    axes.set_xlabel(what)
    axes.set_ylabel(unit)
    axes.grid(alpha=0.3)
    axes.legend()
