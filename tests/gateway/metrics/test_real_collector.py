"""A collector that others wrote understands what it is sent, and passes it on as it was."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from observability import TelemetrySettings
from routing_policies.snapshot import Health
from tests.gateway.conftest import House
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver
from tests.support.running_gateway import free_port, running_gateway, settings_for
from tests.support.scripted_runtime import ScriptedRuntime, says
from tests.support.waiting import until

FOUND = importlib.util.find_spec("rotel")
EDGE_ONLY = {"x-data-class": "restricted"}

pytestmark = [
    pytest.mark.collector,
    pytest.mark.skipif(
        FOUND is None, reason="there is no collector here: pip install --constraint constraints.txt '.[collector]'"
    ),
]


@asynccontextmanager
async def rotel(port: int, behind: OtlpReceiver) -> AsyncIterator[None]:
    """Run the collector at this port, before another one."""
    assert FOUND is not None
    assert FOUND.origin is not None
    process = await asyncio.create_subprocess_exec(
        Path(FOUND.origin).with_name("rotel-agent"),
        *("start", "--disable-batching", "--exporter", "otlp"),
        *("--otlp-http-endpoint", f"127.0.0.1:{port}", "--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}"),
        *("--otlp-exporter-endpoint", behind.endpoint, "--otlp-exporter-protocol", "http"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 20)


@asynccontextmanager
async def traced(folder: Path, port: int) -> AsyncIterator[House]:
    async with ScriptedRuntime(says("fine indeed")) as edge, ScriptedRuntime() as cloud:
        settings = settings_for(folder, edge=edge.endpoint, cloud=cloud.endpoint)
        telling = TelemetrySettings(
            "gateway", None, f"http://127.0.0.1:{port}", metrics_every_s=0.5, spool_dir=folder / "spool"
        )
        async with running_gateway(settings, telemetry=telling) as gateway:
            await gateway.until_health(edge=Health.UP, cloud=Health.UP)
            yield House(gateway, edge, cloud)


async def test_what_a_request_left_while_the_collector_was_down_passes_through_it_when_it_is_up(tmp_path: Path) -> None:
    port = free_port()
    with otlp_receiver() as behind:
        async with traced(tmp_path, port) as h:
            await h.gateway.chat(stream=True, headers=EDGE_ONLY)
            [record] = await h.until_settled(1)
            await until(lambda: any((tmp_path / "spool" / "gateway").glob("*.traces.otlp.gz")))
            async with rotel(port, behind):
                await until(lambda: len(behind.spans) == 3 and "gen_ai.server.request.duration" in behind.metrics)
        [top] = [span for span in behind.spans if span.kind == Span.SPAN_KIND_SERVER]
        [point] = behind.metrics["gen_ai.server.request.duration"].histogram.data_points
        resource = {each.key: each.value.string_value for each in behind.resource_spans[0].resource.attributes}
    assert {span.trace_id.hex() for span in behind.spans} == {record["trace_id"]}
    assert {span.parent_span_id for span in behind.spans if span is not top} == {top.span_id}
    assert resource["service.name"] == "gateway"
    assert (point.count, len(point.bucket_counts)) == (1, len(point.explicit_bounds) + 1)
    assert [each.trace_id.hex() for each in point.exemplars] == [record["trace_id"]]
