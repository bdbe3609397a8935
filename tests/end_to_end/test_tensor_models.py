"""Published models through gateway and edge, against what the packages that they come from say of the same input."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton
from PIL import Image, ImageDraw, ImageFont

from routing_policies.policy.loader import load_text
from routing_policies.snapshot import Health
from tests.edge_runtime.serving_process import edge_process
from tests.support.running_gateway import RunningGateway, running_gateway, settings_for
from tests.support.synthetic_speech import speech, write_wave

pytestmark = [pytest.mark.models, pytest.mark.timeout(180)]
MODELS = ("silero-vad", "magika", "ocr-detection", "ocr-recognition")
PAGE = Path(__file__).parents[2] / "docs" / "tensors.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
PAGE_BYTES = PAGE.read_bytes()
TEXT = "TIDEGATE 2026"
POLICY = "apiVersion: tidegate/v1\nname: edge\ntargets: {edge: {kind: edge, clearance: restricted}}\n"
SAYS = (r"speech in \d\d of 31 stretches", "TIDEGATE ?2026")


@pytest.fixture(scope="module")
def edge_url(edge_model: Path, models_dir: Path) -> Iterator[str]:
    for name in MODELS:
        if not (models_dir / name / "manifest.json").is_file():
            pytest.skip(f"{models_dir / name} is not built: run `make tensor-models`")
    options = [option for name in MODELS for option in ("--tensor-model-dir", str(models_dir / name))]
    with edge_process(edge_model, "--slots", "1", *options) as client:
        yield str(client.base_url)


@asynccontextmanager
async def gateway(tmp_path: Path, edge_url: str) -> AsyncIterator[RunningGateway]:
    served = {name: name for name in MODELS} | {"smollm2-135m-instruct": "smollm2"}
    settings = settings_for(tmp_path, edge=edge_url.rstrip("/"), cloud=None)
    edge = settings.targets["edge"].model_copy(update={"models": served})
    settings = settings.model_copy(update={"targets": {"edge": edge}})
    async with running_gateway(settings, load_text(POLICY, "edge.yaml")) as running:
        await running.until_health(edge=Health.UP)
        yield running


def asked(url: str, model: str, outputs: int = 1, version: str = "", **inputs: np.ndarray) -> list[np.ndarray]:
    kinds = {"float32": "FP32", "int32": "INT32", "int64": "INT64"}
    with triton.InferenceServerClient(url.removeprefix("http://")) as client:
        tensors = []
        for name, values in inputs.items():
            tensors.append(triton.InferInput(name, list(values.shape), kinds[values.dtype.name]))
            tensors[-1].set_data_from_numpy(values)
        result = client.infer(model, tensors, model_version=version)
        return [result.as_numpy(each["name"]) for each in result.get_response()["outputs"]][:outputs]


def probabilities(url: str, sound: np.ndarray, version: str) -> list[float]:
    state, before, found = np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32), []
    rate = np.array(16000, np.int64)
    for at in range(0, len(sound) - 511, 512):
        now = np.concatenate([before, sound[None, at : at + 512]], 1)
        output, state = asked(url, "silero-vad", 2, version, input=now, state=state, sr=rate)
        before = now[:, -64:]
        found.append(float(output[0, 0]))
    return found


@pytest.mark.parametrize(
    ("version", "file"),
    [("", "silero_vad.onnx"), ("15", "silero_vad_16k_op15.onnx"), ("18", "silero_vad_op18_ifless.onnx")],
)
async def test_silero_hears_speech_and_silence_as_its_own_package_does(
    tmp_path: Path, edge_url: str, version: str, file: str
) -> None:
    import silero_vad
    import torch
    from silero_vad.utils_vad import OnnxWrapper

    sounds = {"speech": speech(1.0), "silence": np.zeros(8000, np.float32)}
    async with gateway(tmp_path, edge_url) as running:
        found = {
            name: await asyncio.to_thread(probabilities, running.url, sound, version) for name, sound in sounds.items()
        }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a model for 16 kHz alone
        own = OnnxWrapper(str(Path(silero_vad.__file__).parent / "data" / file), force_onnx_cpu=True)
    for name, sound in sounds.items():
        own.reset_states()
        said = [float(own(torch.tensor(sound[at : at + 512]), 16000)) for at in range(0, len(sound) - 511, 512)]
        assert np.allclose(found[name], said, atol=1e-4), name
    assert max(found["speech"]) > 0.5
    assert max(found["silence"]) < 0.1


async def test_magika_tells_the_types_of_files_as_its_own_package_does(tmp_path: Path, edge_url: str) -> None:
    from magika import Magika

    contents = [PAGE_BYTES, b'{"tide": [1, 2, 3], "gate": {"open": true}}\n' * 9, b"<html><body><p>" * 90]
    own = Magika()
    async with gateway(tmp_path, edge_url) as running:
        metadata = (await running.client.get("/v2/models/magika")).json()
        labels = metadata["properties"]["labels"]
        for content in contents:
            values = np.array([_features(content)], np.int32)
            (scores,) = await asyncio.to_thread(asked, running.url, "magika", bytes=values)
            said = own.identify_bytes(content)
            assert labels[int(scores[0].argmax())] == said.dl.label
            assert float(scores[0].max()) == pytest.approx(said.score, abs=1e-4)


def _features(content: bytes) -> list[int]:
    """The first and the last 1,024 bytes without white space around them, and 256 where there are none."""
    first, last = list(content[:4096].lstrip()[:1024]), list(content[-4096:].rstrip()[-1024:])
    return [*first, *[256] * (1024 - len(first)), *[256] * (1024 - len(last)), *last]


async def test_ocr_computes_what_a_plain_session_on_the_published_file_does(
    tmp_path: Path, edge_url: str, models_dir: Path
) -> None:
    import onnxruntime

    random = np.random.default_rng(7)
    pictures = {
        "ocr-detection": ("PP-OCRv4-det.onnx", random.standard_normal((1, 3, 64, 96)).astype(np.float32)),
        "ocr-recognition": ("PP-OCRv4-rec.onnx", random.standard_normal((2, 3, 48, 160)).astype(np.float32)),
    }
    async with gateway(tmp_path, edge_url) as running:
        for model, (file, values) in pictures.items():
            (found,) = await asyncio.to_thread(asked, running.url, model, x=values)
            session = onnxruntime.InferenceSession(models_dir / model / file, providers=["CPUExecutionProvider"])
            (said,) = session.run(None, {"x": values})
            assert np.allclose(found, said, atol=1e-4), model


@pytest.mark.parametrize(("example", "says"), list(zip(EXAMPLES, SAYS, strict=True)), ids=["microphone", "camera"])
async def test_the_examples_of_the_page_run(tmp_path: Path, edge_url: str, example: str, says: str) -> None:
    write_wave(tmp_path / "speech.wav", speech(1.0))
    picture = Image.new("RGB", (480, 160), "white")
    ImageDraw.Draw(picture).text((60, 50), TEXT, "black", ImageFont.load_default(48))
    picture.save(tmp_path / "frame.png")
    async with gateway(tmp_path, edge_url) as running:
        code = example.replace("127.0.0.1:8080", running.url.removeprefix("http://"))
        command = [sys.executable, "-c", code]
        ran: subprocess.CompletedProcess[str] = await asyncio.to_thread(
            subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(says, ran.stdout.strip()), ran.stdout
