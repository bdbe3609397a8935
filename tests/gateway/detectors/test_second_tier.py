"""The second tier is asked only where it matters, joins what the scanner found, and a failure is never clean."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.detector_settings import ClassifierSettings, DetectorSettings, PresidioSettings
from gateway.detectors.classifier import ClassifierDetector
from gateway.detectors.detector import DetectorFailed, Place
from gateway.detectors.presidio import PresidioDetector
from gateway.detectors.second_tier import SecondTier
from gateway.egress.detector_door import DetectorDoor
from gateway.egress.endpoint import Endpoint
from inference_protocol.text_parts import TextPart, UninspectableCause
from routing_policies.policy.loader import load_text
from routing_policies.signals.label import Finding, ScanResult
from routing_policies.snapshot import Health
from tests.support.running_gateway import RunningGateway, running_gateway, settings_for
from tests.support.scripted_runtime import Received, ScriptedRuntime, says
from tests.support.waiting import until

FAILED = frozenset({UninspectableCause.DETECTOR_ERROR})
PARTS = (TextPart("messages[0].content", "user", "Jane Miller pays"),)
JANE = [[Place("person", "pii", 0, 4)]]
PAYROLL = ClassifierSettings(
    endpoint="http://127.0.0.1:1", model="payroll", labels={"SALARY": "pii", "OTHER": "clean"}, timeout_s=5.0
)
Serve = Callable[[Received], Awaitable[None]]

WORKER = """
import json, sys, time
{first}
print('{{"ready": true}}', flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    said = {said!r}
    exec(said) if said else None
    found = [[["PERSON", 0, 4]] if "Jane" in text else [] for text in asked["texts"]]
    print(json.dumps({{"id": asked["id"], "found": found}}), flush=True)
"""


def worker(said: str = "", first: str = "", **fields: Any) -> PresidioDetector:
    """Presidio's place taken by a program of a few lines."""
    settings = PresidioSettings(**{"timeout_s": 10.0, **fields})
    return PresidioDetector(settings, (sys.executable, "-c", WORKER.format(said=said, first=first)))


@asynccontextmanager
async def running(detector: PresidioDetector) -> AsyncIterator[PresidioDetector]:
    """Have the program running, and ready at first."""
    tier = SecondTier([detector])
    task = asyncio.create_task(tier.run())
    try:
        await until(lambda: detector.worker.pid is not None)
        yield detector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await tier.aclose()


def tensor(name: str, datatype: str, data: list[Any]) -> dict[str, Any]:
    return {"name": name, "shape": [len(data)], "datatype": datatype, "data": data}


async def salaries(request: Received) -> None:
    """A model that calls a text with `pays` a salary, as an Open Inference Protocol V2 server answers."""
    assert request.path == "/v2/models/payroll/infer"
    (asked,) = request.json["inputs"]
    assert (asked["name"], asked["datatype"], asked["shape"]) == ("text", "BYTES", [len(asked["data"])])
    labels = ["SALARY" if "pays" in text else "OTHER" for text in asked["data"]]
    outputs = [tensor("label", "BYTES", labels), tensor("score", "FP32", [0.9] * len(labels))]
    await request.json_answer(200, {"model_name": "payroll", "outputs": outputs})


@asynccontextmanager
async def classifier(serve: Serve, **fields: Any) -> AsyncIterator[ClassifierDetector]:
    async with ScriptedRuntime(serve) as server:
        endpoint = f"http://127.0.0.1:{server.port}"
        detector = ClassifierDetector(PAYROLL.model_copy(update={"endpoint": endpoint, **fields}))
        yield detector
        await detector.aclose()


async def test_what_the_second_tier_finds_stands_beside_what_the_scanner_found() -> None:
    own = Finding("email", "pii", "messages[0].content", 20, 30, "tidegate-scanner")
    async with running(worker()) as detector:
        found = await SecondTier([detector]).read(PARTS, ScanResult((own,)))
    assert found.findings == (own, Finding("person", "pii", "messages[0].content", 0, 4, "presidio"))
    assert found.causes == frozenset()


async def test_where_both_find_the_same_the_scanner_names_it() -> None:
    own = Finding("email", "pii", "messages[0].content", 2, 9, "tidegate-scanner")
    other_tag = Finding("card", "pci", "messages[0].content", 2, 9, "tidegate-scanner")
    async with running(worker()) as detector:
        tier = SecondTier([detector])
        assert (await tier.read(PARTS, ScanResult((own,)))).findings == (own,)
        assert len((await tier.read(PARTS, ScanResult((other_tag,)))).findings) == 2


@pytest.mark.parametrize(
    "said",
    [
        "raise ValueError",
        "sys.exit(0)",
        "import os; os.kill(os.getpid(), 9)",
        "print('no JSON', flush=True)",
        "print('{}', flush=True)",
        "print('[1]', flush=True)",
        "print('x' * (5 << 20), flush=True)",
        "asked['texts'] = []",
        "asked['texts'] = ['Jane'] * 9",
        "asked['id'] += 1",
        "print(json.dumps({'id': asked['id'], 'found': [[['PERSON', 3, 999]]]}), flush=True)",
        "print(json.dumps({'id': asked['id'], 'found': [[['PERSON', True, 2]]]}), flush=True)",
        "print(json.dumps({'id': asked['id'], 'found': [[['HERETIC', 0, 2]]]}), flush=True)",
        "print(json.dumps({'id': asked['id'], 'found': [['x']]}), flush=True)",
        "print(json.dumps({'id': asked['id'], 'found': None}), flush=True)",
    ],
)
async def test_a_detector_that_throws_dies_floods_or_babbles_leaves_the_request_uninspected(said: str) -> None:
    async with running(worker(said)) as detector:
        assert (await SecondTier([detector]).read(PARTS, ScanResult())).causes == FAILED


async def test_a_detector_that_hangs_is_killed_in_time() -> None:
    async with running(worker("time.sleep(3600)", timeout_s=1.0)) as detector:
        pid = detector.worker.pid
        assert pid is not None
        assert (await SecondTier([detector]).read(PARTS, ScanResult())).causes == FAILED
        await until(lambda: is_gone(pid))


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_after_a_kill_another_process_takes_its_place() -> None:
    async with running(worker()) as detector:
        assert await detector.find(["Jane"]) == JANE
        pid = detector.worker.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: detector.worker.pid not in {pid, None})
        assert await detector.find(["Jane"]) == JANE


async def test_a_process_that_loads_slowly_is_waited_for_and_requests_are_not(tmp_path: Path) -> None:
    loaded = tmp_path / "loaded"
    loading = f"import os\nwhile not os.path.exists({str(loaded)!r}): time.sleep(0.01)"
    detector = worker(first=loading, timeout_s=5.0)
    tier = SecondTier([detector])
    task = asyncio.create_task(tier.run())
    try:
        assert (await tier.read(PARTS, ScanResult())).causes == FAILED, "it fails at once and closed"
        loaded.touch()
        await until(lambda: detector.worker.pid is not None)
        assert (await tier.read(PARTS, ScanResult())).causes == frozenset()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_caller_who_gives_up_does_not_cost_the_others_their_process(tmp_path: Path) -> None:
    read, answer = tmp_path / "read", tmp_path / "answer"
    slowly = (
        f"import os\nif 'slow' in asked['texts'][0]:\n  open({str(read)!r}, 'w').close()\n"
        f"  while not os.path.exists({str(answer)!r}): time.sleep(0.01)"
    )
    async with running(worker(slowly)) as detector:
        pid = detector.worker.pid
        slow = asyncio.create_task(detector.find(["slow Jane"]))
        await until(read.exists)
        slow.cancel()
        waiting = asyncio.create_task(detector.find(["Jane"]))
        answer.touch()
        assert await waiting == JANE
        assert detector.worker.pid == pid


async def test_more_text_than_can_be_read_in_time_is_not_begun() -> None:
    async with running(worker(max_chars=20)) as detector:
        with pytest.raises(DetectorFailed, match="max_chars"):
            await detector.find(["Jane" * 3, "Jane" * 3])
        assert await detector.find(["Jane"]) == JANE


async def test_an_answer_to_a_call_that_was_given_up_is_never_taken_for_the_next() -> None:
    async with running(worker("time.sleep(3600 if 'slow' in asked['texts'][0] else 0)", timeout_s=1.0)) as detector:
        pid = detector.worker.pid
        with pytest.raises(DetectorFailed):
            await detector.find(["slow Jane"])
        await until(lambda: detector.worker.pid not in {pid, None})
        assert await detector.find(["nobody"]) == [[]]


async def test_a_classifier_on_this_machine_labels_whole_texts() -> None:
    async with classifier(salaries) as detector:
        found = await SecondTier([detector]).read([*PARTS, TextPart("model", None, "m")], ScanResult())
    assert found == ScanResult((Finding("salary", "pii", "messages[0].content", 0, 16, "classifier"),))


async def test_a_label_below_the_score_means_nothing() -> None:
    async with classifier(salaries, score=0.95) as detector:
        assert await detector.find(["pays"]) == [[]]


@pytest.mark.parametrize(
    "body",
    [
        {"outputs": [tensor("label", "BYTES", ["UNKNOWN"])]},
        {"outputs": [tensor("label", "BYTES", [])]},
        {"outputs": [tensor("label", "BYTES", ["SALARY", "SALARY"])]},
        {"outputs": [tensor("label", "INT64", [1])]},
        {"outputs": [tensor("label", "BYTES", ["SALARY"]), tensor("score", "FP32", ["high"])]},
        {"outputs": [{"name": "label"}]},
        {"outputs": []},
        {"error": "no such model"},
        [],
    ],
)
async def test_a_classifier_that_answers_nonsense_leaves_the_request_uninspected(body: Any) -> None:
    async with classifier(lambda request: request.json_answer(200, body)) as detector:
        assert (await SecondTier([detector]).read(PARTS, ScanResult())).causes == FAILED


async def cuts(request: Received) -> None:
    request.cut()


async def floods(request: Received) -> None:
    await request.head(content_type="application/json")
    try:
        while True:
            await request.chunk(b" " * 65536)
    except OSError:
        pass


async def hangs(request: Received) -> None:
    await request.gone.wait()


@pytest.mark.parametrize("serve", [cuts, floods, hangs, lambda request: request.json_answer(500, {"error": "x"})])
async def test_a_classifier_that_fails_leaves_the_request_uninspected(serve: Serve) -> None:
    async with classifier(serve, timeout_s=1.0) as detector:
        assert (await SecondTier([detector]).read(PARTS, ScanResult())).causes == FAILED


async def test_a_classifier_that_is_not_there_leaves_the_request_uninspected() -> None:
    tier = SecondTier([ClassifierDetector(PAYROLL)])
    assert (await tier.read(PARTS, ScanResult())).causes == FAILED
    await tier.aclose()


@pytest.mark.parametrize(
    "endpoint", ["http://10.0.0.7:80", "https://models.corp.com", "http://localhost:1", "http://8.8.8.8"]
)
def test_no_text_goes_to_a_detector_elsewhere(endpoint: str) -> None:
    with pytest.raises(ValidationError, match="loopback"):
        ClassifierSettings(endpoint=endpoint, model="m", labels={"a": "clean"})
    with pytest.raises(ValueError, match="not on this machine"):
        DetectorDoor(Endpoint.parse(endpoint), connect_timeout_s=1)


def test_by_default_no_detector_runs() -> None:
    assert SecondTier.from_settings(DetectorSettings())._detectors == ()


POLICY = """
apiVersion: tidegate/v1
name: names-stay
defaults: {class: public}
findings: {pii: confidential}
targets:
  edge: {kind: edge, clearance: restricted}
  cloud: {kind: cloud, clearance: CLEARANCE, tags_allowed: [ALLOWED]PSEUDONYMS}
prefer: [{id: cloud-first, target: cloud, weight: 1.0}]
"""


@asynccontextmanager
async def gateway(
    folder: Path, serve: Serve, *, clearance: str = "internal", allowed: str = "", pseudonyms: str = ""
) -> AsyncIterator[tuple[RunningGateway, ScriptedRuntime, ScriptedRuntime]]:
    text = POLICY.replace("CLEARANCE", clearance).replace("ALLOWED", allowed).replace("PSEUDONYMS", pseudonyms)
    edge, cloud, model = ScriptedRuntime(says("edge")), ScriptedRuntime(says("cloud")), ScriptedRuntime(serve)
    async with edge, cloud, model:
        at = {each: f"http://127.0.0.1:{each.port}" for each in (edge, cloud, model)}
        detectors = DetectorSettings(classifier=PAYROLL.model_copy(update={"endpoint": at[model]}))
        settings = settings_for(folder, edge=at[edge], cloud=at[cloud], detectors=detectors)
        async with running_gateway(settings, load_text(text, "policy.yaml")) as running:
            await running.until_health(edge=Health.UP, cloud=Health.UP)
            yield running, cloud, model


async def test_what_the_model_finds_keeps_a_request_here(tmp_path: Path) -> None:
    async with gateway(tmp_path, salaries) as (running, _, model):
        answer = await running.chat("Who pays Jane Miller?")
        assert answer.headers["x-tidegate-target"] == "edge"
        assert answer.headers["x-tidegate-label"] == "confidential; salary"
        assert (await running.chat("Hello")).headers["x-tidegate-target"] == "cloud"
        assert model.requests
        records = "".join(path.read_text() for path in (tmp_path / "records").rglob("*.jsonl"))
    assert '"salary":1' in records
    assert "Miller" not in records


async def test_it_is_not_asked_where_its_word_would_change_nothing(tmp_path: Path) -> None:
    async with gateway(tmp_path, salaries, clearance="restricted", allowed="pii") as (running, _, model):
        assert (await running.chat("Who pays Jane Miller?")).headers["x-tidegate-target"] == "cloud"
        assert not [each for each in model.requests if each.method == "POST"]


async def test_a_request_that_stays_here_anyway_is_not_read_again(tmp_path: Path) -> None:
    async with gateway(tmp_path, salaries) as (running, _, model):
        answer = await running.chat("Who pays?", headers={"x-data-class": "restricted"})
        assert answer.headers["x-tidegate-target"] == "edge"
        assert not [each for each in model.requests if each.method == "POST"]


async def test_when_the_model_fails_the_request_is_restricted(tmp_path: Path) -> None:
    async with gateway(tmp_path, cuts) as (running, cloud, _):
        answer = await running.chat("Hello")
        assert answer.headers["x-tidegate-target"] == "edge"
        assert answer.headers["x-tidegate-label"].startswith("restricted")
        assert not [each for each in cloud.requests if each.method == "POST"]


async def test_a_detector_that_is_killed_keeps_requests_here_until_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = worker()
    monkeypatch.setattr(SecondTier, "from_settings", lambda *_: SecondTier([detector]))
    async with gateway(tmp_path, salaries) as (running, cloud, _):
        await until(lambda: detector.worker.pid is not None)
        assert (await running.chat("Hello")).headers["x-tidegate-target"] == "cloud"
        pid = detector.worker.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        answer = await running.chat("Hello")
        assert answer.headers["x-tidegate-target"] == "edge"
        assert answer.headers["x-tidegate-label"].startswith("restricted")
        assert len(cloud.posts) == 1
        await until(lambda: detector.worker.pid not in {pid, None})
        assert (await running.chat("Hello")).headers["x-tidegate-target"] == "cloud"


async def test_what_only_the_model_finds_cannot_be_replaced_by_a_token(tmp_path: Path) -> None:
    async with gateway(tmp_path, salaries, pseudonyms=", pseudonymize: [pii]") as (running, cloud, _):
        assert (await running.chat("Who pays Jane Miller?")).headers["x-tidegate-target"] == "edge"
        assert (await running.chat("Write to jane@corp.com")).headers["x-tidegate-target"] == "cloud"
        (sent,) = [each for each in cloud.requests if each.method == "POST"]
        assert b"jane@corp.com" not in sent.body
