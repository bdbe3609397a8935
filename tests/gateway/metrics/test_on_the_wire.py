"""However a request ends it is counted once, and Prometheus and a collector read the same of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from observability import TelemetrySettings
from routing_policies.policy.errors import PolicyError
from routing_policies.policy.loader import load_text
from routing_policies.snapshot import Health
from tests.gateway.conftest import House, HouseFactory
from tests.support.otlp_receiver import dead_endpoint, otlp_receiver
from tests.support.running_gateway import running_gateway, settings_for
from tests.support.scripted_runtime import Received, ScriptedRuntime, event, says
from tests.support.waiting import until

SECRET = "the grey heron stands in the reeds"
EDGE_ONLY = {"x-data-class": "restricted"}
CLOUD_MAY_SEE_ALL = load_text(
    """
apiVersion: tidegate/v1
name: open
defaults: {class: public}
targets:
  edge: {kind: edge, clearance: public}
  cloud: {kind: cloud, clearance: restricted}
constraints:
  - {id: nothing-here, when: 'true', deny: [edge]}
""",
    "open.yaml",
)
Samples = Mapping[str, list[tuple[dict[str, str], float]]]


async def scraped(app: Any) -> Samples:
    """What Prometheus reads of the admin listener's application: samples by name."""
    transport = httpx.ASGITransport(app.admin)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        response = await client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def total(samples: Samples, name: str, **labels: str) -> float:
    return sum(value for own, value in samples.get(name, ()) if labels.items() <= own.items())


def outcomes(samples: Samples) -> dict[str, float]:
    return {own["tidegate_outcome"]: value for own, value in samples["tidegate_requests_total"]}


async def breaks(request: Received) -> None:
    await request.json_answer(500, {"error": {"message": "broken"}})


async def cuts(request: Received) -> None:
    await request.head()
    await request.chunk(event(role="assistant", content="one "))
    request.cut()


async def hangs(request: Received) -> None:
    await asyncio.Event().wait()


async def drips(request: Received) -> None:
    await request.head()
    await request.chunk(event(role="assistant", content="one "))
    await asyncio.Event().wait()


async def asks(h: House) -> None:
    await h.gateway.chat(SECRET, stream=True)


async def asks_for_too_much(h: House) -> None:
    await h.gateway.client.post("/v1/chat/completions", json={"model": "auto", "messages": []})


async def asks_in_a_hurry(h: House) -> None:
    await h.gateway.chat(SECRET, headers={**EDGE_ONLY, "x-latency-budget-ms": "300"})


async def asks_what_may_go_nowhere(h: House) -> None:
    await h.gateway.chat(SECRET, headers={**EDGE_ONLY, "x-data-tags": "phi"}, max_tokens=10**6)


async def asks_the_edge(h: House) -> None:
    await h.gateway.chat(SECRET, headers=EDGE_ONLY, stream=True)


async def hangs_up(h: House) -> None:
    body = {"model": "auto", "messages": [{"role": "user", "content": SECRET}], "stream": True}
    async with h.gateway.client.stream("POST", "/v1/chat/completions", json=body, headers=EDGE_ONLY) as response:
        async for _ in response.aiter_bytes():
            break


@pytest.mark.parametrize(
    ("edge", "ask", "outcome"),
    [
        (says("fine indeed"), asks, "ok"),
        (breaks, asks, "ok"),  # by the cloud
        (breaks, asks_the_edge, "upstream_error"),
        (cuts, asks_the_edge, "upstream_cut"),
        (hangs, asks_in_a_hurry, "deadline_exceeded"),
        (drips, hangs_up, "client_closed"),
        (says("fine"), asks_for_too_much, "invalid_request"),
        (says("fine"), asks_what_may_go_nowhere, "context_exceeded"),
    ],
)
async def test_a_request_is_counted_once_however_it_ends(
    house: HouseFactory, edge: Callable[..., Any], ask: Callable[[House], Any], outcome: str
) -> None:
    async with house(edge=ScriptedRuntime(edge), cloud=ScriptedRuntime(says("far away"))) as h:
        await ask(h)
        [record] = await h.until_settled(1)
        samples = await scraped(h.gateway.app)
    assert (record["outcome"], outcomes(samples)) == (outcome, {outcome: 1.0})
    assert total(samples, "gen_ai_server_request_duration_seconds_count") == 1
    attempts = [(each["target"], each["cause"], each["outcome"]) for each in record["attempts"]]
    counted = {
        (own["tidegate_target"], own["tidegate_attempt_cause"], own["tidegate_outcome"]): value
        for own, value in samples.get("tidegate_attempts_total", ())
    }
    assert counted == {each: attempts.count(each) for each in attempts}
    sent = sum(each["bytes_out"] for each in record["attempts"])
    assert total(samples, "tidegate_egress_bytes_total") == sent
    assert total(samples, "tidegate_egress_restricted_to_cloud_total") == 0


async def test_a_hedge_is_an_attempt_of_its_own_and_no_fallback(house: HouseFactory) -> None:
    hedging = {"hedge_after": 0.05}
    async with house(edge=ScriptedRuntime(hangs), cloud=ScriptedRuntime(says("far away")), attempts=hedging) as h:
        await asks(h)
        await h.until_settled(1)
        samples = await scraped(h.gateway.app)
    counted = {
        (own["tidegate_target"], own["tidegate_attempt_cause"], own["tidegate_outcome"]): value
        for own, value in samples["tidegate_attempts_total"]
    }
    assert counted == {("edge", "first", "superseded"): 1, ("cloud", "hedge", "ok"): 1}
    assert outcomes(samples) == {"ok": 1}
    assert "tidegate_fallbacks_total" not in samples
    assert total(samples, "gen_ai_server_request_duration_seconds_count") == 1


async def test_restricted_data_at_a_cloud_target_is_counted_where_a_policy_allows_it(house: HouseFactory) -> None:
    async with house(loaded=CLOUD_MAY_SEE_ALL) as h:
        assert (await h.gateway.chat(SECRET, headers=EDGE_ONLY)).headers["x-tidegate-target"] == "cloud"
        await h.gateway.chat(SECRET)
        await h.until_settled(2)
        samples = await scraped(h.gateway.app)
    assert total(samples, "tidegate_egress_restricted_to_cloud_total") == 1
    assert total(samples, "tidegate_egress_bytes_total", tidegate_target_kind="cloud") > 0


async def test_records_that_cannot_be_written_are_counted(house: HouseFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with house() as h:
        monkeypatch.setattr("gateway.records.log.RotatingFile.append", full)
        assert (await h.gateway.chat(SECRET)).headers["x-tidegate-target"] == "edge", "it stays on this device"
        samples = await scraped(h.gateway.app)
    assert total(samples, "tidegate_records_failed_total") == 2


async def test_a_policy_that_cannot_be_put_in_force_shows(house: HouseFactory) -> None:
    async with house() as h:
        h.gateway.app.rollout.mark_stale(PolicyError("policy.yaml", 1, 1, "not a policy"))
        first = total(await scraped(h.gateway.app), "tidegate_policy_stale_seconds")
        await until(lambda: h.gateway.app.rollout.stale_s > first)
        assert total(await scraped(h.gateway.app), "tidegate_policy_stale_seconds") > first


async def test_a_fallback_says_from_where_to_where_and_why(house: HouseFactory) -> None:
    async with house(edge=ScriptedRuntime(breaks), cloud=ScriptedRuntime(says("far away"))) as h:
        await asks(h)
        await h.until_settled(1)
        samples = await scraped(h.gateway.app)
    [(labels, value)] = samples["tidegate_fallbacks_total"]
    assert value == 1
    assert (labels["tidegate_fallback_from"], labels["tidegate_target"]) == ("edge", "cloud")
    assert labels["error_type"]


async def test_times_and_tokens_are_those_of_the_record(house: HouseFactory) -> None:
    async with house(edge=ScriptedRuntime(says("fine indeed"))) as h:
        await h.gateway.chat(SECRET, stream=True, headers=EDGE_ONLY)
        [record] = await h.until_settled(1)
        samples = await scraped(h.gateway.app)
    of = {"gen_ai_operation_name": "chat", "gen_ai_request_model": "smollm2-135m-instruct"}
    ms = {name: total(samples, f"gen_ai_server_{name}_seconds_sum", **of) * 1000 for name in ("request_duration",)}
    assert ms["request_duration"] == pytest.approx(record["duration_ms"], abs=0.01)
    assert total(samples, "gen_ai_server_time_to_first_token_seconds_sum", **of) * 1000 == pytest.approx(
        record["commit_ms"], abs=0.01
    )
    tokens = {
        kind: total(samples, f"gen_ai_client_inference_usage_{kind}_tokens_total", tidegate_target="edge")
        for kind in ("input", "output")
    }
    assert tokens == {"input": record["tokens"]["input"], "output": record["tokens"]["output"]}
    assert total(samples, "gen_ai_server_time_per_output_token_seconds_count") == 1


async def test_money_and_energy_are_those_that_the_policy_declares(house: HouseFactory) -> None:
    async with house(policy="cost-first") as h:
        await h.gateway.chat(SECRET, headers=EDGE_ONLY)
        [record] = await h.until_settled(1)
        samples = await scraped(h.gateway.app)
    [attempt] = record["attempts"]
    spent = total(samples, "tidegate_energy_estimated_joules_total", tidegate_target="edge")
    assert spent == pytest.approx(8 * attempt["duration_ms"] / 1000, abs=1e-5)
    assert samples["tidegate_cost_total"] == [({"tidegate_target": "edge", "tidegate_currency": "USD"}, 0.0)]


async def test_older_names_are_a_setting_away(house: HouseFactory) -> None:
    async with house(telemetry={"genai_conventions": "semconv-1.41"}) as h:
        await h.gateway.chat(SECRET)
        await h.until_settled(1)
        samples = await scraped(h.gateway.app)
    assert total(samples, "gen_ai_client_token_usage_sum", gen_ai_token_type="input") == 7
    assert total(samples, "gen_ai_client_operation_duration_seconds_count") == 1
    assert not any("client_inference" in name for name in samples)


async def test_tenants_are_told_apart_up_to_a_bound_and_not_at_all_unless_asked_for(house: HouseFactory) -> None:
    async with house() as h:
        await h.gateway.chat(SECRET)
        await h.until_settled(1)
        assert {own["tidegate_tenant"] for own, _ in (await scraped(h.gateway.app))["tidegate_requests_total"]} == {""}
    async with house(telemetry={"metric_tenants": 1}) as h:
        await h.gateway.chat(SECRET)
        await h.until_settled(2)
        samples = await scraped(h.gateway.app)
        assert {own["tidegate_tenant"] for own, _ in samples["tidegate_requests_total"]} == {"local"}


async def test_the_state_of_targets_and_policy_is_read_when_asked_for(house: HouseFactory) -> None:
    async with house() as h:
        samples = await scraped(h.gateway.app)
    assert total(samples, "tidegate_policy_version") == 1
    assert total(samples, "tidegate_policy_stale_seconds") == 0
    assert total(samples, "tidegate_engine_slots", tidegate_target="edge") == 4
    assert total(samples, "tidegate_engine_step_duration_seconds", tidegate_target="edge", tidegate_batch="1") == 0.01
    assert total(samples, "tidegate_endpoint_breaker", tidegate_target="edge", tidegate_breaker="closed") == 1
    assert total(samples, "tidegate_endpoint_health", tidegate_target="cloud") == 1
    assert total(samples, "tidegate_connectivity_state") == 1


async def test_a_collector_is_sent_the_same_with_traces_as_examples_and_no_content(
    house: HouseFactory, tmp_path: Any
) -> None:
    with otlp_receiver() as collector:
        async with ScriptedRuntime(says("fine indeed")) as edge, ScriptedRuntime() as cloud:
            settings = settings_for(tmp_path, edge=edge.endpoint, cloud=cloud.endpoint)
            telling = TelemetrySettings("gateway", tmp_path / "traces", collector.endpoint)
            async with running_gateway(settings, telemetry=telling) as gateway:
                await gateway.until_health(edge=Health.UP, cloud=Health.UP)
                await gateway.chat(SECRET, stream=True, headers=EDGE_ONLY)
        [point] = collector.metrics["gen_ai.server.request.duration"].histogram.data_points
        [counted] = collector.metrics["tidegate.requests"].sum.data_points
        roots = [span for span in collector.spans if span.name == "POST /v1/chat/completions"]
    assert (point.count, sum(point.bucket_counts), len(point.bucket_counts)) == (1, 1, len(point.explicit_bounds) + 1)
    assert {each.key: each.value.string_value for each in point.attributes} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "tidegate",
        "gen_ai.request.model": "smollm2-135m-instruct",
    }
    assert [(each.trace_id, each.span_id) for each in point.exemplars] == [(roots[0].trace_id, roots[0].span_id)]
    assert counted.as_double == 1
    assert not any(SECRET.encode() in body for body in collector.raw)


async def test_a_dead_collector_holds_nothing_up(tmp_path: Any) -> None:
    async with ScriptedRuntime(says("fine")) as edge, ScriptedRuntime() as cloud:
        settings = settings_for(tmp_path, edge=edge.endpoint, cloud=cloud.endpoint)
        telling = TelemetrySettings("gateway", tmp_path / "traces", dead_endpoint(), metrics_every_s=0.01)
        async with running_gateway(settings, telemetry=telling) as gateway:
            await gateway.until_health(edge=Health.UP, cloud=Health.UP)
            for _ in range(3):
                assert (await gateway.chat(SECRET)).status_code == 200
            samples = await scraped(gateway.app)
    assert outcomes(samples) == {"ok": 3.0}
