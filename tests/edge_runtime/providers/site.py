"""A runtime's providers in a folder of a test, a stand-in that can be made to fail among them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime.providers.book import ProviderBook
from edge_runtime.providers.graph_file import GraphFile
from edge_runtime.providers.opened import OpenedGraph
from edge_runtime.providers.prober import Bench
from edge_runtime.providers.providers import Providers
from inference_protocol.provider_policy import ProviderPolicy, Work
from tests.support.faulty_provider import COMMAND, WITH_STAND_INS
from tests.support.small_graphs import WIDTH, write_perceptron
from tests.support.waiting import until

ROWS = np.random.default_rng(5).standard_normal((3, WIDTH)).astype(np.float32)
NOW = 1_700_000_000


@dataclass(frozen=True)
class Site:
    """The folder. `providers` begins anew with what its files hold, as a runtime does that was started again."""

    root: Path

    @property
    def book(self) -> ProviderBook:
        return ProviderBook(self.root / "providers.json", now=lambda: NOW)

    @property
    def armed(self) -> Path:
        """As long as this is missing, stand-ins that were told so do nothing wrong."""
        return self.root / "armed"

    def providers(self, name: str = "stand-in", **policy: Any) -> Providers:
        given = {"allow": ("cpu", name), "prefer": {Work.TENSORS: (name,)}, "timeout_s": 30.0, **policy}
        bench = Bench(ProviderPolicy(**given), 1, self.root / "cache", WITH_STAND_INS, COMMAND)
        return Providers(bench, self.book)

    def graph(self, name: str = "perceptron", *, rows: int | str = "rows", seed: int = 0) -> GraphFile:
        (self.root / name).mkdir(exist_ok=True)
        path = write_perceptron(self.root / name / "model.onnx", rows=rows, seed=seed)
        return GraphFile(path, name, f"{seed}-{rows}", Work.TENSORS)


async def settled(providers: Providers, graph: GraphFile) -> OpenedGraph:
    """Open a graph and wait until it has been decided what runs it."""
    opened = providers.open(graph)
    await until(
        lambda: not any("being tried" in why for why in passed_over(providers, graph.title).values()), within_s=60
    )
    return opened


def passed_over(providers: Providers, model: str = "perceptron") -> dict[str, str]:
    return next(use.passed_over for use in providers.uses() if use.model == model)
