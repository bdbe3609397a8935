"""A provider that fails while it serves: the request is answered all the same, and the provider is asked no more."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

from edge_runtime.providers.graph_file import GraphFile
from edge_runtime.providers.opened import OpenedGraph
from edge_runtime.providers.providers import Providers
from edge_runtime.providers.sessions import CPU_PROVIDER, ORT_ERRORS
from tests.edge_runtime.providers.site import ROWS, Site, passed_over, settled
from tests.support.faulty_provider import PROVIDER
from tests.support.small_graphs import WIDTH, write_perceptron
from tests.support.waiting import until


def failing(site: Site, fault: str, at: int = 1, **policy: float) -> Providers:
    given = {"fault": fault, "armed": str(site.armed), "at": str(at)}
    return site.providers(options={"stand-in": given}, **policy)


def answer(opened: OpenedGraph) -> str:
    """Run it, hold the numbers against the CPU's, and return what computed them."""
    found = opened.run({"x": ROWS})["y"]
    own = opened.session.run(None, {"x": ROWS})[0]  # type: ignore[union-attr]  # it is open
    assert np.allclose(found, own, atol=1e-6)
    return opened.execution.header


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("crashes", "crashed with perceptron, its process ended: SIGSEGV"),
        ("hangs", "hung with perceptron, it gave no answer within 2 s"),
        ("not finite", "not-finite with perceptron"),
        ("raises", "refused with perceptron, it raised RuntimeError where the CPU did not;"),
    ],
)
async def test_the_tenth_request_is_answered_by_the_cpu_and_the_provider_is_in_quarantine(
    site: Site, fault: str, says: str
) -> None:
    providers = failing(site, fault, at=10, run_timeout_s=2.0)
    opened = await settled(providers, site.graph())
    site.armed.touch()
    assert [answer(opened) for _ in range(9)] == [PROVIDER] * 9
    assert answer(opened) == f"{CPU_PROVIDER}; instead-of=stand-in"
    assert answer(opened) == opened.provider == CPU_PROVIDER
    assert says in passed_over(providers)["stand-in"]
    assert "in quarantine since 2023-11-14 22:13 UTC" in passed_over(providers)["stand-in"]
    providers.close(opened)


async def test_a_quarantine_outlives_the_runtime_and_ends_with_another_version(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = failing(site, "crashes")
    opened = await settled(first, site.graph())
    site.armed.touch()
    answer(opened)
    first.close(opened)
    site.armed.unlink()
    again = failing(site, "crashes")
    opened = await settled(again, site.graph())
    assert opened.provider == CPU_PROVIDER
    assert "in quarantine" in passed_over(again)["stand-in"]
    again.close(opened)
    monkeypatch.setenv("STAND_IN", "version 2")
    updated = failing(site, "crashes")
    opened = await settled(updated, site.graph())
    assert (opened.provider, passed_over(updated)) == (PROVIDER, {})
    updated.close(opened)


async def test_every_graph_leaves_a_provider_that_failed_with_one(site: Site) -> None:
    providers = failing(site, "crashes")
    one, other = await settled(providers, site.graph("one")), await settled(providers, site.graph("other", seed=1))
    assert other.provider == PROVIDER
    site.armed.touch()
    answer(one)
    assert (one.provider, other.provider) == (CPU_PROVIDER, CPU_PROVIDER)
    assert answer(other) == CPU_PROVIDER
    assert "crashed with one" in passed_over(providers, "other")["stand-in"]
    for opened in (one, other):
        providers.close(opened)


async def test_a_quarantine_that_cannot_be_written_down_holds_until_the_end_of_the_process(site: Site) -> None:
    providers = failing(site, "crashes")
    opened = await settled(providers, site.graph())
    (site.root / "providers.json").unlink()
    (site.root / "providers.json").mkdir()  # nothing can be put in its place
    site.armed.touch()
    assert answer(opened) == f"{CPU_PROVIDER}; instead-of=stand-in"
    providers.close(opened)
    other = await settled(providers, site.graph("other"))
    assert other.provider == CPU_PROVIDER
    assert "in quarantine" in passed_over(providers, "other")["stand-in"]
    providers.close(other)


async def test_two_graphs_of_one_model_are_told_apart(site: Site) -> None:
    graph = site.graph()
    second = GraphFile(write_perceptron(graph.path.with_name("v2.onnx"), seed=3), graph.model, "3", graph.work)
    providers = site.providers()
    opened = [await settled(providers, each) for each in (graph, second)]
    assert {use.model: use.provider for use in providers.uses()} == {
        "perceptron": PROVIDER,
        "perceptron/v2.onnx": PROVIDER,
    }
    assert {"stand-in perceptron", "stand-in perceptron/v2.onnx"} <= site.book.read().reports.keys()
    for each in opened:
        providers.close(each)


async def test_a_request_that_the_cpu_refuses_too_is_nobodys_fault_but_its_own(site: Site) -> None:
    providers = site.providers()
    opened = await settled(providers, site.graph())
    with pytest.raises(ORT_ERRORS):
        opened.run({"x": np.zeros((3, WIDTH + 1), np.float32)})
    assert answer(opened) == PROVIDER
    assert passed_over(providers) == {}
    providers.close(opened)


async def test_values_that_the_model_itself_makes_infinite_are_not_held_against_a_provider(site: Site) -> None:
    providers = site.providers()
    opened = await settled(providers, site.graph())
    huge = opened.run({"x": np.full((1, WIDTH), 3e38, np.float32)})["y"]
    assert not np.isfinite(huge).all()
    assert answer(opened) == PROVIDER
    providers.close(opened)


async def test_the_end_of_its_process_between_two_requests_is_met_by_the_next(site: Site) -> None:
    providers = site.providers()
    opened = await settled(providers, site.graph())
    assert opened.accelerated is not None
    os.kill(opened.accelerated.process.pid, signal.SIGKILL)
    assert answer(opened) == f"{CPU_PROVIDER}; instead-of=stand-in"
    providers.close(opened)


async def test_closing_ends_the_process_even_in_the_middle_of_a_run(site: Site) -> None:
    providers = failing(site, "hangs", run_timeout_s=60.0)
    opened = await settled(providers, site.graph())
    assert opened.accelerated is not None
    process = opened.accelerated.process
    site.armed.touch()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            opened.run({"x": ROWS})
        except BaseException as error:
            failed.append(error)

    running = threading.Thread(target=run)
    running.start()
    await until(lambda: process.is_busy)
    providers.close(opened)
    running.join(10)
    assert not running.is_alive()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
