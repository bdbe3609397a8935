"""What a collector is sent of generative AI has the names, the attributes and the buckets of the conventions.

They are written out here once more, by the conventions' pages and not by our code: semantic-conventions-genai v0.1.0
and, for the older names, semantic-conventions v1.41.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from observability import TelemetrySettings
from routing_policies.snapshot import Health
from tests.gateway.conftest import House
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver
from tests.support.running_gateway import running_gateway, settings_for
from tests.support.scripted_runtime import ScriptedRuntime, says

DURATIONS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
TOKENS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864]
FIRST_TOKENS = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
LATE_FIRST_TOKENS = [15, 20, 30, 45, 60]  # beyond the conventions', which end where a busy machine begins
PER_TOKEN = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5]

OF_A_SERVER = {
    "gen_ai.server.request.duration": ("s", DURATIONS),
    "gen_ai.server.time_to_first_token": ("s", [*FIRST_TOKENS, *LATE_FIRST_TOKENS]),
    "gen_ai.server.time_per_output_token": ("s", PER_TOKEN),
}
NEWER = {
    "gen_ai.client.inference.duration": ("s", DURATIONS),
    "gen_ai.client.inference.time_to_first_chunk": ("s", DURATIONS),
    "gen_ai.client.inference.operation.input_tokens": ("{token}", TOKENS),
    "gen_ai.client.inference.operation.output_tokens": ("{token}", TOKENS),
}
OLDER = {
    "gen_ai.client.operation.duration": ("s", DURATIONS),
    "gen_ai.client.operation.time_to_first_chunk": ("s", DURATIONS),
    "gen_ai.client.token.usage": ("{token}", TOKENS),
}
COUNTERS = {
    "gen_ai.client.inference.usage.input_tokens": 7,
    "gen_ai.client.inference.usage.output_tokens": 2,
}
REQUIRED = {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"}


async def asked(folder: Path, collector: OtlpReceiver, **telemetry: Any) -> str:
    """Have one streamed answer made, and return its trace id; its telemetry has arrived by then."""
    async with ScriptedRuntime(says("fine indeed")) as edge, ScriptedRuntime() as cloud:
        settings = settings_for(folder, edge=edge.endpoint, cloud=cloud.endpoint, telemetry=telemetry)
        telling = TelemetrySettings("gateway", None, collector.endpoint)
        async with running_gateway(settings, telemetry=telling) as gateway:
            await gateway.until_health(edge=Health.UP, cloud=Health.UP)
            await gateway.chat(stream=True, headers={"x-data-class": "restricted"})
            [record] = await House(gateway, edge, cloud).until_settled(1)
    return str(record["trace_id"])


def points(collector: OtlpReceiver, name: str) -> list[HistogramDataPoint]:
    return list(collector.metrics[name].histogram.data_points)


@pytest.mark.parametrize(
    ("conventions", "own", "others"), [("genai-0.1", NEWER, OLDER), ("semconv-1.41", OLDER, NEWER)]
)
async def test_metrics_have_the_names_and_buckets_of_one_generation(
    tmp_path: Path, conventions: str, own: dict[str, tuple[str, list[float]]], others: dict[str, Any]
) -> None:
    with otlp_receiver() as collector:
        trace_id = await asked(tmp_path, collector, genai_conventions=conventions)
    assert not set(others) & set(collector.metrics), "one generation at a time"
    for name, (unit, bounds) in {**OF_A_SERVER, **own}.items():
        assert collector.metrics[name].unit == unit
        for point in points(collector, name):
            assert list(point.explicit_bounds) == bounds, name
            assert {each.key for each in point.attributes} >= REQUIRED
            assert {each.trace_id.hex() for each in point.exemplars} == {trace_id}, f"{name} leads to no trace"


async def test_tokens_are_counted_by_kind_in_either_generation(tmp_path: Path) -> None:
    with otlp_receiver() as collector:
        await asked(tmp_path / "newer", collector)
        await asked(tmp_path / "older", collector, genai_conventions="semconv-1.41")
    sums = {name: collector.metrics[name].sum.data_points[0].as_double for name in COUNTERS}
    by_type = {
        next(each.value.string_value for each in point.attributes if each.key == "gen_ai.token.type"): point.sum
        for point in points(collector, "gen_ai.client.token.usage")
    }
    assert sums == COUNTERS
    assert by_type == {"input": 7, "output": 2}


async def test_the_span_of_an_attempt_says_who_was_asked_for_what_and_what_came(tmp_path: Path) -> None:
    with otlp_receiver() as collector:
        await asked(tmp_path, collector)
    [chat] = [span for span in collector.spans if span.kind == Span.SPAN_KIND_CLIENT]
    found = {each.key: each.value for each in chat.attributes}
    assert chat.name == "chat smollm2-135m-instruct"
    assert {name: found[name].string_value for name in (*REQUIRED, "server.address")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "tidegate",
        "gen_ai.request.model": "smollm2-135m-instruct",
        "server.address": "127.0.0.1",
    }
    assert found["gen_ai.request.stream"].bool_value
    assert found["server.port"].int_value > 0
    assert found["gen_ai.response.time_to_first_chunk"].double_value > 0
    assert [found[f"gen_ai.usage.{kind}_tokens"].int_value for kind in ("input", "output")] == [7, 2]
    assert [each.string_value for each in found["gen_ai.response.finish_reasons"].array_value.values] == ["stop"]
