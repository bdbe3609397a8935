"""Text in pictures is read by the edge's own models, through the real gateway, process and sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import struct
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image

from gateway.detector_settings import DetectorSettings, PictureSettings
from gateway.detectors.detector import FAILED
from gateway.detectors.pictures import PictureDetector
from gateway.settings import Settings
from inference_protocol.text_parts import TextPart, text_parts
from routing_policies.policy.loader import load_text
from routing_policies.snapshot import Health
from tests.edge_runtime.serving_process import edge_process
from tests.support.pictures import as_file, data_url, picture_of, showing
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.scripted_runtime import MODEL, Received, ScriptedRuntime, says
from tests.support.waiting import until

pytestmark = [pytest.mark.models, pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]
MODELS = ("ocr-detection", "ocr-recognition")
SECRET = as_file(picture_of("Card: 4111 1111 1111 1111", "Write to jane@corp.com", "Key AKIAIOSFODNN7QWERTYU"))
HARMLESS = as_file(picture_of("The tide turns at noon", "Gate 7 opens at 14:30"))
POLICY = """
apiVersion: tidegate/v1
name: pictures-travel
defaults: {class: public}
uninspected: {image: internal}
findings: {pii: confidential, pci: restricted, secret: restricted}
targets:
  edge: {kind: edge, clearance: restricted}
  cloud: {kind: cloud, clearance: internal}
prefer: [{id: cloud-first, target: cloud, weight: 1.0}]
"""


@pytest.fixture(scope="module")
def models_url(edge_model: Path, models_dir: Path) -> Iterator[str]:
    """The edge runtime with the models that read pictures."""
    for name in MODELS:
        if not (models_dir / name / "manifest.json").is_file():
            pytest.skip(f"{models_dir / name} is not built: run `make tensor-models`")
    options = [option for name in MODELS for option in ("--tensor-model-dir", str(models_dir / name))]
    with edge_process(edge_model, "--slots", "1", *options) as client:
        yield str(client.base_url).rstrip("/")


@asynccontextmanager
async def gateway(
    folder: Path, reading: PictureSettings | None, policy: str = POLICY
) -> AsyncIterator[tuple[RunningGateway, ScriptedRuntime]]:
    async with ScriptedRuntime(says("edge")) as edge, ScriptedRuntime(says("cloud")) as cloud:
        sees = {"protocol": "openai", "models": {MODEL: MODEL}, "capabilities": {"images": True}}
        targets = {"edge": {"endpoints": [edge.endpoint], **sees}, "cloud": {"endpoints": [cloud.endpoint], **sees}}
        settings = Settings(state_dir=folder, targets=targets, detectors=DetectorSettings(pictures=reading))
        async with running_gateway(settings, load_text(policy, "policy.yaml")) as running:
            await running.until_health(edge=Health.UP, cloud=Health.UP)
            yield running, cloud


async def shown(running: RunningGateway, *urls: str) -> tuple[str, str]:
    """Who answers a message that shows pictures, and what it is labelled."""
    answer = await running.client.post(
        "/v1/chat/completions", json={"model": "auto", "messages": [{"role": "user", "content": showing(*urls)}]}
    )
    assert answer.status_code == 200, answer.text
    return answer.headers["x-tidegate-target"], answer.headers["x-tidegate-label"]


async def until_read(running: RunningGateway) -> None:
    """Wait until pictures can be read; before that they fail closed."""
    async with asyncio.timeout(60):
        while (said := await shown(running, data_url(HARMLESS)))[0] != "cloud":
            assert said == ("edge", "restricted")
            await asyncio.sleep(0.1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reading(
    models_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[RunningGateway, ScriptedRuntime]]:
    """A gateway that reads pictures, and the cloud that it may send some to."""
    folder = tmp_path_factory.mktemp("pictures")
    bounds = PictureSettings(
        endpoint=models_url, timeout_s=60.0, max_pictures=3, max_bytes=1 << 20, max_pixels=4_000_000
    )
    async with gateway(folder, bounds) as (running, cloud):
        await until_read(running)
        yield running, cloud


Reading = tuple[RunningGateway, ScriptedRuntime]


async def test_what_a_picture_shows_keeps_it_here_and_is_told_by_its_kind_alone(reading: Reading) -> None:
    running, cloud = reading
    before = len(cloud.posts)
    assert await shown(running, data_url(SECRET)) == ("edge", "restricted; aws_access_key_id; card; email")
    assert len(cloud.posts) == before
    written = "".join(path.read_text() for path in running.state_dir.rglob("*.jsonl"))
    assert '"card":1' in written
    assert not any(value in written for value in ("4111 1111", "41111111", "jane@corp", "AKIA"))


async def test_a_picture_in_which_nothing_is_found_is_still_a_picture(reading: Reading) -> None:
    running, cloud = reading
    before = len(cloud.posts)
    assert await shown(running, data_url(HARMLESS)) == ("cloud", "internal")
    assert len(cloud.posts) == before + 1


async def test_one_telling_picture_among_others_is_enough(reading: Reading) -> None:
    running, _ = reading
    mail = as_file(picture_of("jane@corp.com"), "JPEG")
    assert await shown(running, data_url(HARMLESS), data_url(mail, "jpeg")) == ("edge", "confidential; email")


async def test_a_picture_inside_a_text_is_read_too(reading: Reading) -> None:
    running, _ = reading
    answer = await running.chat(f"Look: ![this]({data_url(SECRET)})")
    assert answer.headers["x-tidegate-label"] == "restricted; aws_access_key_id; card; email"


async def test_text_that_is_turned_dark_or_transparent_is_read(reading: Reading) -> None:
    running, _ = reading
    lines = ("Card: 4111 1111 1111 1111", "for the harbour")
    upright = picture_of(*lines)
    light = picture_of(*lines, dark=True).convert("RGBA")
    light.putalpha(light.convert("L"))  # white letters on nothing
    turned = [upright.rotate(angle, expand=True, fillcolor="white") for angle in (4, 180)]
    for picture in (*turned, picture_of(*lines, dark=True), light):
        assert await shown(running, data_url(as_file(picture))) == ("edge", "restricted; card")


def animated(kind: str) -> bytes:
    frames = [picture_of("one"), picture_of("two")]
    return as_file(frames[0], kind, save_all=True, append_images=frames[1:])


def bomb() -> bytes:
    """A PNG of a few hundred bytes that says it has 30,000 by 30,000 pixels."""
    file = bytearray(as_file(Image.new("1", (8, 8))))
    header = b"IHDR" + struct.pack(">II", 30000, 30000) + file[24:29]
    file[12:33] = header + struct.pack(">I", zlib.crc32(header))
    return bytes(file)


UNREADABLE = {
    "a lying type": data_url(HARMLESS, "jpeg"),
    "text that says it is a picture": data_url(b"jane@corp.com"),
    "cut off": data_url(SECRET[: len(SECRET) // 2]),
    "several frames": data_url(animated("PNG")),
    "a moving GIF": data_url(animated("GIF"), "gif"),
    "a bomb": data_url(bomb()),
    "too many bytes": data_url(HARMLESS + bytes(1 << 20)),
    "no base64": "data:image/png;base64,iVBOR",
    "not in base64": "data:image/svg+xml,%3Csvg/%3E",
    "a vector": data_url(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "svg+xml"),
    "elsewhere": "https://pictures.corp.com/7.png",
    "nothing": "data:image/png;base64,",
}


@pytest.mark.parametrize("url", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_picture_that_cannot_be_read_is_an_error_of_the_detector(reading: Reading, url: str) -> None:
    running, cloud = reading
    before = len(cloud.posts)
    target, label = await shown(running, url)
    assert (target, label.removesuffix("; domain")) == ("edge", "restricted")
    assert len(cloud.posts) == before
    explained = await running.client.post(
        "/v1/route/explain", json={"model": "auto", "messages": [{"role": "user", "content": showing(url)}]}
    )
    assert {"image", "detector_error"} <= set(explained.json()["label"]["uninspected_causes"])


async def test_what_could_be_read_counts_beside_what_could_not(reading: Reading) -> None:
    running, _ = reading
    assert await shown(running, data_url(SECRET), UNREADABLE["cut off"]) == (
        "edge",
        "restricted; aws_access_key_id; card; email",
    )


async def test_more_pictures_than_are_read_are_an_error_too(reading: Reading) -> None:
    running, _ = reading
    assert await shown(running, *[data_url(HARMLESS)] * 4) == ("edge", "restricted")


async def test_after_all_that_pictures_are_read_as_before(reading: Reading) -> None:
    running, _ = reading
    assert await shown(running, data_url(HARMLESS)) == ("cloud", "internal")


async def test_texts_are_not_held_up_by_pictures(reading: Reading) -> None:
    running, _ = reading
    slow = asyncio.create_task(shown(running, *[data_url(HARMLESS)] * 3))
    answered = await running.chat("Hello")
    assert not slow.done()
    assert answered.headers["x-tidegate-target"] == "cloud"
    assert (await slow)[0] == "cloud"


async def hangs(request: Received) -> None:
    await request.gone.wait()


async def floods(request: Received) -> None:
    await request.head(content_type="application/octet-stream")
    with contextlib.suppress(OSError):
        while True:
            await request.chunk(bytes(1 << 20))


async def lies(request: Received) -> None:
    tensor = {"name": "y", "shape": [1, 1, 2, 2], "datatype": "FP32", "data": [0.0] * 4}
    await request.json_answer(200, {"outputs": [tensor]})


async def cuts(request: Received) -> None:
    request.cut()


async def refuses(request: Received) -> None:
    await request.json_answer(503, {"error": "it is not loaded"})


@asynccontextmanager
async def process(endpoint: str, **bounds: Any) -> AsyncIterator[PictureDetector]:
    """The process that reads, alone."""
    detector = PictureDetector(PictureSettings(endpoint=endpoint, **{"timeout_s": 20.0, **bounds}))
    task = asyncio.create_task(detector.run())
    try:
        await until(lambda: detector.worker.pid is not None, within_s=60.0)
        yield detector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def parts(*urls: str) -> list[TextPart]:
    return list(text_parts({"messages": [{"role": "user", "content": showing(*urls)}]}))


async def test_an_edge_that_refuses_lies_floods_or_is_gone_fails_the_pictures_and_not_the_process() -> None:
    async with ScriptedRuntime() as edge:
        edge.report = SimpleNamespace(model_dump_json=lambda: '{"properties": {"labels": ["", "a"]}}')
        async with process(edge.endpoint) as detector:
            pid = detector.worker.pid
            for at, edge.answer in enumerate((refuses, lies, floods, cuts), 1):
                assert await detector.read(parts(data_url(HARMLESS))) == FAILED
                assert len(edge.posts) == at
            await edge.stop()
            assert await detector.read(parts(data_url(HARMLESS))) == FAILED
            assert detector.worker.pid == pid


async def test_an_edge_without_the_models_fails_the_pictures() -> None:
    async with ScriptedRuntime() as edge, process(edge.endpoint) as detector:
        assert await detector.read(parts(data_url(HARMLESS))) == FAILED
        assert not edge.posts, "it was not asked to compute"


async def test_a_process_that_hangs_or_dies_while_it_reads_fails_the_pictures_and_another_takes_its_place() -> None:
    async with ScriptedRuntime(hangs) as edge:
        edge.report = SimpleNamespace(model_dump_json=lambda: '{"properties": {"labels": ["", "a"]}}')
        async with process(edge.endpoint) as detector:
            pid = detector.worker.pid
            assert pid is not None
            read = asyncio.create_task(detector.read(parts(data_url(HARMLESS))))
            await edge.arrived.wait()
            os.kill(pid, signal.SIGKILL)
            assert await read == FAILED
            await until(lambda: detector.worker.pid not in {pid, None}, within_s=60.0)
        async with process(edge.endpoint, timeout_s=1.5) as detector:
            assert await detector.read(parts(data_url(HARMLESS))) == FAILED


async def test_where_finding_something_would_change_nothing_no_picture_is_read(tmp_path: Path) -> None:
    async with ScriptedRuntime() as edge:
        cleared = POLICY.replace("clearance: internal", "clearance: restricted, tags_allowed: [pii, phi, pci, secret]")
        async with gateway(tmp_path, PictureSettings(endpoint=edge.endpoint), cleared) as (running, _):
            assert await shown(running, data_url(SECRET)) == ("cloud", "internal")
        assert not edge.requests


async def test_by_default_pictures_are_not_read(tmp_path: Path) -> None:
    async with gateway(tmp_path, None) as (running, _):
        assert await shown(running, data_url(SECRET)) == ("cloud", "internal")
