"""A second real provider, on the CPU of any machine: ggml's kernels, in ONNX Runtime by a plugin."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.embeddings.graph import embedding_file
from edge_runtime.providers import prober
from edge_runtime.providers.adapters import ADAPTERS
from edge_runtime.providers.book import ProviderBook
from edge_runtime.providers.faults import Fault
from edge_runtime.providers.graph_file import GraphFile
from edge_runtime.providers.prober import Bench
from edge_runtime.providers.providers import Providers, UnknownProvider
from edge_runtime.providers.report import Report
from edge_runtime.providers.sessions import CPU_PROVIDER
from inference_protocol.provider_policy import ProviderPolicy, Work
from runtime_server import model_manifest
from runtime_server.model_lease import take_lease
from tests.edge_runtime.providers.site import ROWS, Site, passed_over, settled

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime_ggml") is None,
    reason="onnxruntime-ggml is not installed: `make install` does that where there is a wheel of it",
)
POLICY = ProviderPolicy(
    allow=("cpu", "ggml"), prefer={Work.TENSORS: ("ggml",)}, options={"ggml": {"device": "cpu", "threads": "1"}}
)


@pytest.fixture
def bench() -> Bench:
    return Bench(POLICY, 1)


def probed(bench: Bench, graph: GraphFile) -> Report:
    candidate = prober.look(bench, "ggml")
    try:
        return prober.probe(bench, candidate, graph, prober.refer(bench, graph))
    finally:
        candidate.close()


async def test_ggml_runs_a_graph_of_products_and_is_told_as_what_computed_it(bench: Bench, site: Site) -> None:
    providers = Providers(bench, ProviderBook(site.root / "providers.json", now=time.time))
    opened = await settled(providers, site.graph())
    assert (opened.provider, passed_over(providers)) == ("ggml", {})
    found = opened.run({"x": ROWS})["y"]
    assert opened.execution.header == "ggml"
    own = opened.session.run(None, {"x": ROWS})[0]  # type: ignore[union-attr]  # it is open
    apart = float(np.abs(found - own).max() / np.abs(own).max())
    assert 0 < apart < POLICY.tolerance  # it keeps weights in float16: other numbers, so it was not the CPU provider
    providers.close(opened)


@pytest.mark.models
def test_ggml_takes_no_node_of_the_model_that_embeds_and_the_report_says_so(bench: Bench, models_dir: Path) -> None:
    with take_lease(models_dir / "all-minilm-l6-v2") as lease:
        graph = embedding_file(lease.folder, model_manifest.read_manifest(lease.folder))
        report = probed(bench, graph)
    assert (report.fault, report.coverage) == (Fault.CLAIMS_NOTHING, 0.0)
    assert report.nodes == {CPU_PROVIDER: 60}


def test_every_provider_that_is_known_says_what_is_missing_and_none_takes_an_unknown_option(bench: Bench) -> None:
    for adapter in ADAPTERS:
        found = prober.find(bench, adapter.name)
        assert found.provider == adapter.provider
        assert found.devices or found.problem
        with pytest.raises(ValueError, match=f"edge.providers.options.{adapter.name}: there is no option `such`"):
            adapter.complete({"such": "1"}, None)


def test_a_provider_that_there_is_not_stops_the_start(site: Site) -> None:
    with pytest.raises(UnknownProvider, match=r"no provider `tpu`\. There are: cpu, openvino"):
        Providers(Bench(ProviderPolicy(allow=("tpu",)), 1), site.book)


def test_an_option_that_there_is_not_keeps_a_provider_from_being_used(site: Site) -> None:
    policy = POLICY.model_copy(update={"options": {"ggml": {"theads": "1"}}})
    bench = Bench(policy, 1)
    report = probed(bench, site.graph())
    assert report.fault is Fault.REFUSED
    assert "no option `theads`" in (report.detail or "")
