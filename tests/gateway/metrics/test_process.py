"""The gateway as a process of its own: Prometheus scrapes the admin port, with a key that may look and no other."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sys
from pathlib import Path

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.otlp_receiver import dead_endpoint, otlp_receiver
from tests.support.running_gateway import free_port
from tests.support.scripted_runtime import MODEL, ScriptedRuntime, says
from tests.support.serving_process import serving
from tests.support.tokenizer import write_word_tokenizer
from tests.support.waiting import until


def key(name: str, role: str) -> dict[str, object]:
    return {
        "id": name,
        "secret_sha256": hashlib.sha256(b"secret").hexdigest(),
        "tenant": "acme",
        "roles": [role],
    }


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}.secret"}


async def test_prometheus_and_a_collector_read_a_running_process(tmp_path: Path) -> None:
    write_word_tokenizer(tmp_path / "models" / "smollm2-135m-instruct-q4_1")
    port, admin = free_port(), free_port()
    environment = {**os.environ, "TIDEGATE_SETTINGS": str(tmp_path / "tidegate.yaml")}
    base = f"http://127.0.0.1:{port}"
    with otlp_receiver() as collector:
        async with ScriptedRuntime(says("fine indeed")) as edge, httpx.AsyncClient(trust_env=False) as client:
            settings = {
                "state_dir": str(tmp_path),
                "listen": {"port": port},
                "admin": {"port": admin},
                "targets": {
                    "edge": {"endpoints": [edge.endpoint], "protocol": "tidegate", "models": {MODEL: MODEL}},
                    "cloud": {"endpoints": [dead_endpoint()], "models": {MODEL: MODEL}},
                },
                "auth": {"keys": [key("phone", "inference"), key("prometheus", "auditor")]},
                "telemetry": {
                    "otlp_endpoint": collector.endpoint,
                    "metric_tenants": 1,
                    "log_format": "json",
                },
            }
            (tmp_path / "tidegate.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "gateway.cli", "serve", env=environment, stderr=asyncio.subprocess.PIPE
            )
            assert process.stderr is not None
            logged = asyncio.create_task(process.stderr.read())
            try:

                async def is_ready() -> bool:
                    try:
                        return (await client.get(f"{base}/readyz")).status_code == 200
                    except httpx.TransportError:
                        return False

                await until(is_ready, within_s=60)
                body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
                for _ in range(2):
                    await client.post(f"{base}/v1/chat/completions", json=body, headers=bearer("phone"))
                url = f"http://127.0.0.1:{admin}/metrics"
                refused = [(await client.get(url, headers=own)).status_code for own in ({}, bearer("phone"))]
                scrape = await client.get(url, headers=bearer("prometheus"))
                public = await client.get(f"{base}/metrics", headers=bearer("prometheus"))
            finally:
                if process.returncode is None:
                    process.send_signal(signal.SIGTERM)
                assert await asyncio.wait_for(process.wait(), 30) == 0
    events = [json.loads(line) for line in (await logged).splitlines()]
    assert {event["service"] for event in events} == {"gateway"}
    assert any(event["message"].startswith("Serving ") for event in events)
    assert (refused, public.status_code) == ([401, 403], 403)
    samples = {s.name: s for family in text_string_to_metric_families(scrape.text) for s in family.samples}
    counted = samples["tidegate_requests_total"]
    assert counted.value == 2
    assert (counted.labels["tidegate_tenant"], counted.labels["tidegate_target"]) == ("acme", "edge")
    [point] = collector.metrics["tidegate.requests"].sum.data_points
    assert point.as_double == 2, "sent once more as the process ended"


async def test_what_a_gateway_could_not_send_goes_with_the_one_that_is_started_after_it(tmp_path: Path) -> None:
    endpoint, spool = dead_endpoint(), tmp_path / "state" / "spool" / "gateway"
    telemetry = {"otlp_endpoint": endpoint}
    body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
    async with ScriptedRuntime(says("fine")) as edge, ScriptedRuntime() as cloud:
        async with serving(tmp_path, edge, cloud, telemetry=telemetry) as found, httpx.AsyncClient() as client:
            answer = await client.post(f"{found.url}/v1/chat/completions", json=body)
        waiting = sorted(spool.iterdir())
        assert {path.name.split(".")[1] for path in waiting} == {"metrics", "traces"}
        assert {path.stat().st_mode & 0o777 for path in (*waiting, spool)} == {0o600, 0o700}
        with otlp_receiver(int(endpoint.rpartition(":")[2])) as collector:
            async with serving(tmp_path, edge, cloud, telemetry=telemetry):
                await until(lambda: not any(path.exists() for path in waiting))
            told = {attribute.value.string_value for span in collector.spans for attribute in span.attributes}
    assert answer.headers["x-request-id"] in told
