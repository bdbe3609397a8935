"""Who does some work: what is allowed, what is preferred, what was measured."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from edge_runtime.providers.faults import Fault
from edge_runtime.providers.report import Report
from edge_runtime.providers.selection import select
from inference_protocol.provider_policy import ProviderPolicy, Work


def report(name: str, ms: float, fault: Fault | None = None) -> Report:
    return Report(
        name=name, provider=name, version="1", driver="", model="m", identity=name, ms={1: ms}, fault=fault, detail="so"
    )


REPORTS = {"cpu": report("cpu", 5), "fast": report("fast", 1), "slow": report("slow", 9), "npu": report("npu", 2)}
ALL = ("cpu", "fast", "slow", "npu")


def test_without_a_word_of_the_operator_the_cpu_does_everything() -> None:
    assert select(ProviderPolicy(), Work.TENSORS, REPORTS, {}).name == "cpu"


def test_the_fastest_of_those_that_are_allowed_does_what_nobody_is_preferred_for() -> None:
    found = select(ProviderPolicy(allow=ALL), Work.TENSORS, REPORTS, {})
    assert found.name == "fast"
    assert found.passed_over["slow"] == "slower than fast: 9.00 ms against 1.00 for the same runs"
    assert set(found.passed_over) == {"slow", "npu"}


def test_what_is_slower_than_the_cpu_is_left_alone_unless_it_is_preferred() -> None:
    assert select(ProviderPolicy(allow=("cpu", "slow")), Work.TENSORS, REPORTS, {}).name == "cpu"
    preferring = ProviderPolicy(allow=("cpu", "slow"), prefer={Work.TENSORS: ("slow",)})
    assert select(preferring, Work.TENSORS, REPORTS, {}).name == "slow"
    assert select(preferring, Work.EMBEDDINGS, REPORTS, {}).name == "cpu"


def test_an_order_is_kept_and_what_cannot_is_passed_over_with_its_reason() -> None:
    policy = ProviderPolicy(allow=ALL, prefer={Work.EMBEDDINGS: ("npu", "slow", "fast")})
    assert select(policy, Work.EMBEDDINGS, REPORTS, {}).name == "npu"
    found = select(policy, Work.EMBEDDINGS, REPORTS | {"npu": report("npu", 2, Fault.HUNG)}, {"slow": "barred"})
    assert found.name == "fast"
    assert found.passed_over == {"npu": "hung: so", "slow": "barred"}


def test_denied_or_not_allowed_is_never_taken_even_where_it_is_preferred() -> None:
    denied = ProviderPolicy(allow=ALL, deny=("fast",), prefer={Work.TENSORS: ("fast", "npu")})
    assert select(denied, Work.TENSORS, REPORTS, {}).name == "npu"
    assert select(ProviderPolicy(prefer={Work.TENSORS: ("fast",)}), Work.TENSORS, REPORTS, {}).name == "cpu"


def test_without_a_probe_that_passed_nothing_but_the_cpu_is_taken() -> None:
    found = select(ProviderPolicy(allow=ALL), Work.TENSORS, {}, {})
    assert found.name == "cpu"
    assert found.passed_over == dict.fromkeys(("fast", "slow", "npu"), "no probe has passed")


def test_generation_is_the_cpus_and_nobody_else_can_be_preferred_for_it() -> None:
    assert select(ProviderPolicy(allow=ALL), Work.GENERATION, REPORTS, {}).name == "cpu"
    with pytest.raises(ValidationError, match="leave fast out of `generation`"):
        ProviderPolicy(prefer={Work.GENERATION: ("fast", "cpu")})
