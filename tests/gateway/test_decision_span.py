"""The span of a decision tells what it was made from."""

from __future__ import annotations

from typing import Any

from observability.span_reader import read_spans
from tests.gateway.conftest import House, HouseFactory
from tests.support.waiting import until


async def decision_span(h: House, **headers: str) -> dict[str, Any]:
    """Ask, and return the attributes of the one decision that was made."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    assert (await h.gateway.chat(headers=named)).status_code == 200
    folder = h.gateway.state_dir / "traces"
    await until(lambda: any(read_spans(folder, '"route ')))
    (span,) = [span for span in read_spans(folder, '"route ') if span.name.startswith("route ")]
    return dict(span.attributes)


async def test_a_decisions_span_tells_budgets_and_predictions(house: HouseFactory) -> None:
    async with house() as h:
        found = await decision_span(h, x_latency_budget_ms="30000", x_ttft_budget_ms="900")
    assert found["tidegate.budget.total_ms"] == 30000
    assert round(found["tidegate.budget.ttft_ms"]) == 900
    assert 0 < found["tidegate.predicted.ttft_ms"] < found["tidegate.predicted.total_ms"]


async def test_what_nobody_said_is_left_out_of_a_decisions_span(house: HouseFactory) -> None:
    async with house() as h:
        found = await decision_span(h)
    assert "tidegate.budget.total_ms" not in found
    assert found["tidegate.target"] in {"edge", "cloud"}


async def test_the_span_of_a_whole_request_is_named_by_method_and_path(house: HouseFactory) -> None:
    async with house() as h:
        await h.gateway.chat()
        folder = h.gateway.state_dir / "traces"
        await until(lambda: any(read_spans(folder, "POST /v1/chat/completions")))
