from __future__ import annotations

import pytest
from starlette.types import Scope

from inference_protocol.budgets import MAX_BUDGET_MS
from inference_protocol.errors import InvalidHeader
from routing_policies.signals.deadline import DeadlineDefaults, parse_deadline
from runtime_server.latency_budget import latency_budget

NAME = "x-latency-budget-ms"


def in_the_gateway(value: str) -> float | None:
    found = parse_deadline({NAME: value}, received_at=100.0, defaults=DeadlineDefaults())
    return found.total_at


def in_a_runtime(value: str) -> float | None:
    scope: Scope = {"type": "http", "headers": [(NAME.encode(), value.encode())]}
    return latency_budget(scope, 100.0).deadline


@pytest.mark.parametrize("value", ["1", "0.5", "250", " 30 ", "86400001", str(MAX_BUDGET_MS)])
def test_a_budget_that_the_gateway_accepts_means_the_same_to_a_runtime(value: str) -> None:
    assert in_the_gateway(value) == in_a_runtime(value) == 100.0 + float(value) / 1000


@pytest.mark.parametrize(
    "value", ["", "0", "-5", "soon", "nan", "inf", "1e3", "1_000", "0x10", "+1", "1, 2", str(MAX_BUDGET_MS + 1)]
)
def test_a_budget_that_the_gateway_refuses_is_refused_by_a_runtime_too(value: str) -> None:
    for read in (in_the_gateway, in_a_runtime):
        with pytest.raises(InvalidHeader, match=NAME):
            read(value)
