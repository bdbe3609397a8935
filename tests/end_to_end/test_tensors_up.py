"""`tidegate up` with models of tensors in its settings: asked by their own protocol, and for what pictures show."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import numpy as np
import pytest
import tritonclient.http as triton
from PIL import Image
from tritonclient.utils import InferenceServerException

from tests.support.installation import Installation, installed
from tests.support.pictures import as_file, data_url, picture_of

pytestmark = [pytest.mark.models, pytest.mark.timeout(180)]
MODELS = ("silero-vad", "ocr-detection", "ocr-recognition")
POLICY = """
apiVersion: tidegate/v1
name: pictures-travel
defaults: {class: public}
uninspected: {image: internal}
findings: {pci: restricted}
targets:
  edge: {kind: edge, clearance: restricted}
  cloud: {kind: cloud, clearance: internal}
prefer: [{id: cloud-first, target: cloud, weight: 1.0}]
"""


class Cloud(BaseHTTPRequestHandler):
    """Somewhere that requests may be decided to go; none is sent."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"data": []}')

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, models_dir: Path) -> Iterator[Installation]:
    for name in MODELS:
        if not (models_dir / name / "manifest.json").is_file():
            pytest.skip(f"{models_dir / name} is not built: run `make tensor-models`")
    folder = tmp_path_factory.mktemp("up")
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    extra = (
        f"policy: {folder / 'policy.yaml'}\ndetectors: {{pictures: {{timeout_s: 60}}}}\n"
        f"edge: {{embedding_model: null, tensor_models: [{', '.join(MODELS)}]}}\n"
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), Cloud) as cloud:
        threading.Thread(target=cloud.serve_forever, daemon=True).start()
        with installed(folder / "state", models_dir, extra, other_cloud=cloud.server_port) as found:
            yield found
        cloud.shutdown()


def heard(**shapes: tuple[int, ...]) -> list[triton.InferInput]:
    """What Silero takes for 32 ms of silence."""
    sizes = {"input": (1, 576), "state": (2, 1, 128), **shapes}
    values = {name: np.zeros(shape, np.float32) for name, shape in sizes.items()} | {"sr": np.array(16000)}
    inputs = []
    for name, each in values.items():
        inputs.append(triton.InferInput(name, list(each.shape), "FP32" if each.dtype == np.float32 else "INT64"))
        inputs[-1].set_data_from_numpy(each)
    return inputs


def test_triton_s_client_is_answered_and_told_what_is_wrong(up: Installation) -> None:
    with triton.InferenceServerClient(up.url.removeprefix("http://"), network_timeout=60) as client:
        assert client.is_model_ready("silero-vad")
        answer = client.infer("silero-vad", heard())
        assert answer.as_numpy("output").shape == (1, 1)
        assert float(answer.as_numpy("output")[0, 0]) < 0.5
        with pytest.raises(InferenceServerException, match="state"):
            client.infer("silero-vad", heard(state=(2, 1, 127)))
        with pytest.raises(InferenceServerException, match="no such version"):
            client.infer("silero-vad", heard(), model_version="99")
    infer = f"{up.url}/v2/models/silero-vad/infer"
    refused = httpx.post(infer, content=b'{"inputs": [', timeout=10, trust_env=False)
    assert (refused.status_code, refused.json()["code"]) == (400, "malformed_body")


KSERVE = os.environ.get("TIDEGATE_KSERVE_PYTHON")


@pytest.mark.skipif(KSERVE is None, reason="TIDEGATE_KSERVE_PYTHON names no interpreter that has `kserve`")
def test_kserve_s_client_is_answered(up: Installation) -> None:
    command = [str(KSERVE), str(Path(__file__).parents[1] / "support" / "kserve_client.py"), up.url]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr


def test_a_caller_who_hangs_up_or_has_no_time_leaves_the_model_to_others(up: Installation) -> None:
    values = np.zeros((1, 3, 1600, 1600), np.float32)
    tensor = {"name": "x", "shape": values.shape, "datatype": "FP32", "parameters": {"binary_data_size": values.nbytes}}
    head = json.dumps({"inputs": [tensor]}).encode()
    fields = {"inference-header-content-length": str(len(head)), "content-type": "application/octet-stream"}
    path, body = "/v2/models/ocr-detection/infer", head + values.tobytes()
    late = httpx.post(
        up.url + path, content=body, headers={**fields, "x-latency-budget-ms": "250"}, timeout=60, trust_env=False
    )
    assert (late.status_code, late.json()["code"]) == (504, "deadline_exceeded")
    host, _, port = up.url.removeprefix("http://").partition(":")
    for _ in range(4):
        with socket.create_connection((host, int(port)), timeout=60) as left:
            lines = [f"POST {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}"]
            lines += [f"{name}: {value}" for name, value in fields.items()]
            left.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    small = {"name": "x", "shape": [1, 3, 32, 32], "datatype": "FP32", "data": [0.0] * (3 * 32 * 32)}
    answer = httpx.post(up.url + path, json={"inputs": [small]}, timeout=60, trust_env=False)
    assert answer.json()["outputs"][0]["shape"] == [1, 1, 32, 32]


def decided(up: Installation, picture: Image.Image) -> tuple[list[str], list[str]]:
    """Where a text with a picture in it may go, and what was found."""
    file = as_file(picture.convert("1"))
    body = {"model": "auto", "messages": [{"role": "user", "content": f"See {data_url(file)}"}], "max_tokens": 8}
    told = httpx.post(f"{up.url}/v1/route/explain", json=body, timeout=120, trust_env=False).json()
    return told["order"], told["label"]["components"]["findings"]["tags"]


def test_pictures_are_read_by_the_edge_that_it_has_started(up: Installation) -> None:
    harmless, card = picture_of("Low tide", wide=160), picture_of("4111 1111 1111 1111", wide=320)
    up.until(lambda: "cloud" in decided(up, harmless)[0], "pictures to be read")
    assert decided(up, card) == (["edge"], ["pci"])
