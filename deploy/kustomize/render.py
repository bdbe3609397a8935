"""What the overlays build upon: the chart's own objects. `python -m deploy.kustomize.render` writes them.

An overlay has values for the chart, what Helm made of them, and what Kustomize adds: so there is one description of a
deployment, and none of Helm is needed to apply it.
"""

from __future__ import annotations

from pathlib import Path

import yaml
from helm_python import Chart

FOLDER = Path(__file__).parent
CHART = FOLDER.parent / "helm" / "tidegate"
OVERLAYS = tuple(sorted(path.parent.name for path in FOLDER.glob("*/kustomization.yaml")))
NAME = NAMESPACE = "tidegate"


def rendered(overlay: str) -> str:
    """Return the objects of the chart for an overlay's values, in the order of the chart's files."""
    values = yaml.safe_load((FOLDER / overlay / "values.yaml").read_text(encoding="utf-8"))
    with Chart.load(CHART) as chart:
        made = chart.render(values, name=NAME, namespace=NAMESPACE)
    return "---\n".join(text.strip() + "\n" for _, text in sorted(made.items()) if text.strip())


if __name__ == "__main__":
    for each in OVERLAYS:
        (FOLDER / each / "tidegate.yaml").write_text(rendered(each), encoding="utf-8")
