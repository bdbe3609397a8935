"""Programs are killed; requests go where they may, and `tidegate up` brings the dead back."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.installation import Installation, installed
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver

pytestmark = [pytest.mark.models, pytest.mark.timeout(400)]
LONG = "word " * 700  # bound for the cloud while it is there


def test_a_killed_cloud_is_stood_in_for_and_comes_back(installation: Installation) -> None:
    assert installation.chat(LONG, max_tokens=2).headers["x-tidegate-target"] == "cloud"
    installation.kill("cloud_runtime")
    at_once = installation.chat(LONG, max_tokens=2)
    assert (at_once.status_code, at_once.headers["x-tidegate-target"]) == (200, "edge")
    installation.until_health(edge="up", cloud="up")
    assert installation.chat(LONG, max_tokens=2).headers["x-tidegate-target"] == "cloud"


def test_a_killed_edge_sends_public_requests_to_the_cloud_and_refuses_restricted_ones(
    installation: Installation,
) -> None:
    installation.kill("edge_runtime")
    public = installation.chat("Hi", max_tokens=2)
    restricted = installation.chat("Hi", max_tokens=2, headers={"x-data-class": "restricted"})
    assert (public.status_code, public.headers["x-tidegate-target"]) == (200, "cloud")
    assert restricted.status_code == 503
    assert "restricted" in restricted.json()["error"]["message"]
    assert "edge" in restricted.json()["error"]["message"]
    installation.until_health(edge="up", cloud="up")
    again = installation.chat("Hi", max_tokens=2, headers={"x-data-class": "restricted"})
    assert (again.status_code, again.headers["x-tidegate-target"]) == (200, "edge")


@pytest.fixture(scope="module")
def exporting(
    tmp_path_factory: pytest.TempPathFactory, models_dir: Path
) -> Iterator[tuple[Installation, OtlpReceiver]]:
    """An installation that also sends its spans to a collector, and whose stand-in takes one request at a time."""
    with otlp_receiver() as receiver:
        extra = f"telemetry: {{otlp_endpoint: '{receiver.endpoint}'}}\ncloud: {{waiting_limit: 0}}\n"
        with installed(tmp_path_factory.mktemp("tg") / "state", models_dir, extra) as found:
            yield found, receiver


def services_of(receiver: OtlpReceiver, trace_id: bytes) -> set[str]:
    return {
        attribute.value.string_value
        for resource in receiver.resource_spans
        if any(span.trace_id == trace_id for scope in resource.scope_spans for span in scope.spans)
        for attribute in resource.resource.attributes
        if attribute.key == "service.name"
    }


def test_one_trace_joins_all_three_programs_at_a_collector_when_a_full_cloud_is_stood_in_for(
    exporting: tuple[Installation, OtlpReceiver],
) -> None:
    found, receiver = exporting
    busy = threading.Thread(target=found.chat, args=(LONG,), kwargs={"max_tokens": 200})
    busy.start()
    found.until(lambda: found.cloud_is_running() == 1, "the cloud to be busy")
    response = found.chat(LONG, max_tokens=2)
    assert response.headers["x-tidegate-reason"] == "fallback; from=cloud; error=upstream_busy"
    trace_id = bytes.fromhex(found.trace_id_of(response.headers["x-request-id"]))
    everyone = {"gateway", "edge_runtime", "cloud_runtime"}
    found.until(lambda: services_of(receiver, trace_id) == everyone, "the spans of all three programs", within_s=20)
    busy.join(120)


def test_sigterm_lets_a_running_answer_finish_and_takes_no_new_ones(
    exporting: tuple[Installation, OtlpReceiver],
) -> None:
    found, _ = exporting
    received: list[bytes] = []
    begun = threading.Event()

    def read(url: str) -> None:
        body = {
            "model": "auto",
            "messages": [{"role": "user", "content": "Write a long story about a robot."}],
            "stream": True,
            "max_tokens": 150,
            "temperature": 0,
        }
        headers = {"x-data-class": "restricted"}
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, headers=headers, timeout=120) as response:
            for chunk in response.iter_bytes():
                received.append(chunk)
                begun.set()

    reader = threading.Thread(target=read, args=(found.url,))
    reader.start()
    assert begun.wait(60)
    found.process.send_signal(signal.SIGTERM)
    found.until(lambda: _refuses(found), "new requests to be refused", within_s=20)
    reader.join(120)
    assert found.process.wait(60) == 0
    assert b"".join(received).endswith(b"data: [DONE]\n\n")


def _refuses(found: Installation) -> bool:
    try:
        return found.chat("Hi", max_tokens=1).status_code == 503
    except httpx.TransportError:
        return True
