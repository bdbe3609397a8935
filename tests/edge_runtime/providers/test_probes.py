"""What a provider does wrong in its probe stays in its process, and in the report."""

from __future__ import annotations

import numpy as np
import pytest

from edge_runtime.providers.faults import Fault
from edge_runtime.providers.report import Report
from edge_runtime.providers.sessions import CPU_PROVIDER
from tests.edge_runtime.providers.site import ROWS, Site, passed_over, settled
from tests.support.faulty_provider import PROVIDER
from tests.support.small_graphs import WIDTH


def report_of(site: Site, name: str = "stand-in") -> Report:
    return site.book.read().reports[f"{name} perceptron"]


async def test_a_provider_that_does_all_right_takes_over_and_its_report_holds_what_was_measured(site: Site) -> None:
    providers = site.providers()
    opened = await settled(providers, site.graph())
    own = opened.session.run(None, {"x": ROWS})[0]  # type: ignore[union-attr]  # it is open
    assert np.allclose(opened.run({"x": ROWS})["y"], own, atol=1e-6)
    assert (opened.execution.provider, opened.provider) == (PROVIDER, PROVIDER)
    report = report_of(site)
    assert (report.passed, report.coverage, report.nodes) == (True, 1.0, {PROVIDER: 3})
    assert sorted(report.ms) == [1, 2, 4, 8]
    assert all(ms > 0 for ms in report.ms.values())
    assert report.difference is not None
    assert report.difference < 1e-6
    assert report.peak_bytes > 10 << 20
    assert site.book.read().processor
    providers.close(opened)


@pytest.mark.parametrize(
    ("fault", "policy", "verdict", "says"),
    [
        ("claims nothing", {}, Fault.CLAIMS_NOTHING, "took none of the graph's 3 nodes"),
        ("wrong", {}, Fault.DIFFERS, "differ from the CPU's by 0.01"),
        ("not finite", {}, Fault.DIFFERS, "differ from the CPU's"),
        ("hangs", {"timeout_s": 4.0}, Fault.HUNG, "no answer within"),
        ("hangs at once", {"timeout_s": 4.0}, Fault.HUNG, "no answer within 4 s"),
        ("crashes", {}, Fault.CRASHED, "SIGSEGV"),
        ("crashes at once", {}, Fault.CRASHED, "SIGSEGV"),
        ("eats memory", {"memory_mib": 500}, Fault.MEMORY, "more than the 500 MiB"),
        ("raises", {}, Fault.REFUSED, "the device is lost"),
    ],
)
async def test_a_provider_that_does_wrong_is_not_used_and_the_state_says_why(
    site: Site, fault: str, policy: dict[str, float], verdict: Fault, says: str
) -> None:
    providers = site.providers(options={"stand-in": {"fault": fault}}, **policy)
    opened = await settled(providers, site.graph())
    assert opened.run({"x": ROWS})["y"].shape == (3, WIDTH)
    assert (opened.execution.header, opened.provider) == (CPU_PROVIDER, CPU_PROVIDER)
    why = passed_over(providers)["stand-in"]
    assert why.startswith(f"{verdict}: ")
    assert says in why
    assert report_of(site).fault is verdict
    providers.close(opened)


async def test_a_crash_while_it_is_looked_for_is_told_too(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "crashes in find")
    providers = site.providers()
    opened = await settled(providers, site.graph())
    assert "looking for it failed: its process ended: SIGSEGV" in passed_over(providers)["stand-in"]
    assert opened.provider == CPU_PROVIDER
    providers.close(opened)


async def test_free_shapes_are_refused_by_name_where_only_fixed_ones_run(site: Site) -> None:
    free = site.providers("static")
    await settled(free, site.graph())
    assert "`x` is ['rows', 64]" in passed_over(free)["static"]
    assert "fixed shapes alone on this CPU" in passed_over(free)["static"]
    fixed = site.providers("static")
    opened = await settled(fixed, site.graph(rows=3))
    assert opened.provider == PROVIDER
    assert list(report_of(site, "static").ms) == [1]
    fixed.close(opened)


async def test_a_probe_holds_until_what_it_was_made_with_changes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def identity_with(**policy: object) -> str:
        providers = site.providers(**policy)
        providers.close(await settled(providers, site.graph()))
        return report_of(site).identity

    first = await identity_with()
    measured = report_of(site)
    assert await identity_with() == first
    assert report_of(site).ms == measured.ms  # as exact as they are, another probe would have given others
    assert await identity_with(options={"stand-in": {"at": "2"}}) != first
    monkeypatch.setenv("STAND_IN", "version 2")
    second = await identity_with()
    assert second != first
    assert report_of(site).version == "2"


async def test_a_compiled_graph_of_another_model_is_never_taken(site: Site) -> None:
    before = site.providers()
    before.close(await settled(before, site.graph(seed=1)))
    after = site.providers()
    opened = await settled(after, site.graph(seed=2))  # under the same name
    assert opened.provider == PROVIDER
    assert (report_of(site).difference or 0) < 1e-6
    after.close(opened)


async def test_a_provider_with_a_cache_of_its_own_that_serves_an_old_graph_is_found_out(site: Site) -> None:
    options = {"stand-in": {"own_cache": str(site.root)}}
    before = site.providers(options=options)
    before.close(await settled(before, site.graph(seed=1)))
    after = site.providers(options=options)
    opened = await settled(after, site.graph(seed=2))
    assert passed_over(after)["stand-in"].startswith("differs: ")
    assert opened.provider == CPU_PROVIDER
    after.close(opened)


async def test_a_compiled_graph_that_cannot_be_read_is_made_anew_once(site: Site) -> None:
    before = site.providers()
    before.close(await settled(before, site.graph()))
    (compiled,) = site.root.glob("cache/*/compiled.onnx")
    compiled.write_bytes(b"")
    after = site.providers()
    opened = await settled(after, site.graph())
    assert opened.provider == PROVIDER
    assert compiled.stat().st_size > 0
    after.close(opened)
