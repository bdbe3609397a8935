"""Tensors over real sockets, by Triton's own client and by plain HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from tests.support.tensor_folders import TYPES

pytestmark = [pytest.mark.models, pytest.mark.timeout(120)]
VALUES: dict[str, list[Any]] = {
    "BOOL": [True, False],
    "UINT64": [0, 2**64 - 1],
    "INT64": [-(2**63), 2**63 - 1],
    "FP16": [0.5, -2.0],
    "FP32": [0.1, -3e38],
    "FP64": [0.1, 1e300],
    "BYTES": ["é and 潮", ""],
}


@pytest.fixture(scope="module")
def client(edge: httpx.Client) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(f"{edge.base_url.host}:{edge.base_url.port}", concurrency=8) as client:
        yield client


def array(name: str) -> np.ndarray:
    values = VALUES.get(name, [0, 100])
    if name == "BYTES":
        return np.array([[each.encode() for each in values]], object)
    return np.array([values], triton_to_np_dtype(name))


def mean_inputs(x: np.ndarray, state: np.ndarray | None = None) -> list[Any]:
    state = np.zeros((1, len(x), 1), np.float32) if state is None else state
    found = []
    for name, values in (("x", x), ("state", state)):
        tensor = triton.InferInput(name, list(values.shape), "FP32")
        tensor.set_data_from_numpy(values)
        found.append(tensor)
    return found


@pytest.mark.parametrize("binary", [True, False])
def test_every_type_comes_back_as_it_went(client: triton.InferenceServerClient, binary: bool) -> None:
    inputs, outputs = [], []
    for name in TYPES:
        as_bytes = binary or name == "FP16"
        tensor = triton.InferInput(name.lower(), [1, 2], name)
        tensor.set_data_from_numpy(array(name), binary_data=as_bytes)
        inputs.append(tensor)
        outputs.append(triton.InferRequestedOutput(f"{name.lower()}_out", binary_data=as_bytes))
    result = client.infer("every-type", inputs, outputs=outputs, request_id="r-7")
    assert result.get_response()["id"] == "r-7"
    for name in TYPES:
        found = result.as_numpy(f"{name.lower()}_out")
        if name == "BYTES":
            found = np.array([[each if isinstance(each, bytes) else each.encode() for each in found.flat]], object)
        assert np.array_equal(found, array(name)), name


def test_the_server_and_its_models_are_described(client: triton.InferenceServerClient, edge: httpx.Client) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    assert client.is_model_ready("running-mean")
    assert client.is_model_ready("running-mean", "1")
    assert not client.is_model_ready("running-mean", "9")
    assert not client.is_model_ready("not-there")
    found = client.get_model_metadata("running-mean")
    assert found["versions"] == ["2", "1"]
    assert found["inputs"] == [
        {"name": "x", "datatype": "FP32", "shape": [-1, -1]},
        {"name": "state", "datatype": "FP32", "shape": [1, -1, 1]},
    ]
    assert edge.get("/v2/models/running-mean").json()["properties"]["states"] == {"state": "state_next"}
    tasks = {model["id"]: model["tasks"] for model in edge.get("/internal/state").json()["models"]}
    assert tasks["running-mean"] == tasks["every-type"] == ["tensor"]


def test_the_version_that_is_asked_for_answers(client: triton.InferenceServerClient) -> None:
    tensor = triton.InferInput("x", [1, 2], "FP32")
    tensor.set_data_from_numpy(np.array([[2, 4]], np.float32))
    result = client.infer("running-mean", [tensor], model_version="1")
    assert result.get_response()["model_version"] == "1"
    assert result.as_numpy("y").tolist() == [[0.5, 0.25]]


def test_requests_of_other_lengths_at_once_each_get_what_they_would_alone(client: triton.InferenceServerClient) -> None:
    rows = [np.full((1 + at % 2, 5 if at % 3 else 128), at, np.float32) for at in range(12)]
    asked = [client.async_infer("running-mean", mean_inputs(row)) for row in rows]
    for at, each in enumerate(asked):
        assert each.get_result().as_numpy("mean").tolist() == [[float(at)]] * (1 + at % 2)


def test_clients_carry_their_states_from_one_request_to_the_next(edge: httpx.Client) -> None:
    found: dict[int, list[float]] = {}

    def talk(step: int) -> None:
        own = triton.InferenceServerClient(f"{edge.base_url.host}:{edge.base_url.port}")
        state = np.zeros((1, 1, 1), np.float32)
        found[step] = []
        for _ in range(5):
            result = own.infer("running-mean", mean_inputs(np.full((1, 4), step, np.float32), state))
            state = result.as_numpy("state_next")
            found[step].append(float(state[0, 0, 0]))
        own.close()

    threads = [threading.Thread(target=talk, args=(step,)) for step in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {step: [step * float(n) for n in range(1, 6)] for step in (1, 2, 3)}


def infer(edge: httpx.Client, *inputs: dict[str, Any], model: str = "running-mean", **fields: Any) -> httpx.Response:
    return edge.post(f"/v2/models/{model}/infer", json={"inputs": list(inputs), **fields})


def named(name: str, shape: list[int], datatype: str = "FP32", data: list[Any] | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "shape": shape,
        "datatype": datatype,
        "data": [1] * int(np.prod(shape)) if data is None else data,
    }


STATE = named("state", [1, 1, 1])


@pytest.mark.parametrize(
    ("inputs", "param", "details"),
    [
        ([named("z", [1]), STATE], "inputs[0].name", {"reason": "unknown_tensor", "expected": ["x", "state"]}),
        ([named("x", [1, 3])], "inputs", {"reason": "missing_tensor", "expected_shape": [1, -1, 1]}),
        ([named("x", [1, 3], "FP64"), STATE], "inputs[0].datatype", {"reason": "wrong_datatype", "expected": "FP32"}),
        ([named("x", [3]), STATE], "inputs[0].shape", {"reason": "wrong_shape", "expected_shape": [-1, -1]}),
        ([named("x", [1, 3]), named("state", [1, 2, 1])], "inputs[1].shape", {"expected_shape": [1, 1, 1]}),
        ([named("x", [0, 3]), named("state", [1, 0, 1])], "inputs[0].shape", {"reason": "empty_batch", "index": 0}),
        ([named("x", [1, 3], data=[1, 2]), STATE], "inputs[0].data", {"reason": "wrong_count", "expected_count": 3}),
        ([named("x", [1 << 20, 1 << 9], data=[]), STATE], "inputs[0].shape", {"reason": "too_large"}),
    ],
)
def test_what_does_not_fit_the_model_is_said_with_what_would(
    edge: httpx.Client, inputs: list[dict[str, Any]], param: str, details: dict[str, Any]
) -> None:
    response = infer(edge, *inputs)
    error = response.json()
    assert (response.status_code, error["code"], error["param"]) == (400, "invalid_field", param)
    assert isinstance(error["error"], str)
    assert details.items() <= error["details"].items()
    assert infer(edge, named("x", [1, 3]), STATE).status_code == 200


def test_a_truncated_body_and_two_gigabytes_that_are_not_there_are_refused_at_once(edge: httpx.Client) -> None:
    def binary(size: int, tail: bytes, shape: list[int]) -> httpx.Response:
        tensor = {"name": "x", "shape": shape, "datatype": "FP32", "parameters": {"binary_data_size": size}}
        head = json.dumps({"inputs": [tensor, STATE]}).encode()
        return edge.post(
            "/v2/models/running-mean/infer",
            content=head + tail,
            headers={"inference-header-content-length": str(len(head))},
        )

    reasons = [
        binary(2 << 30, b"", [1, 1 << 20]).json()["details"]["reason"],
        binary(12, b"\0" * 11, [1, 3]).json()["details"]["reason"],
        binary(12, b"\0" * 13, [1, 3]).json()["details"]["reason"],
    ]
    assert reasons == ["truncated", "truncated", "wrong_size"]
    assert binary(12, b"\0" * 12, [1, 3]).status_code == 200


def test_what_json_cannot_carry_goes_as_bytes_only(edge: httpx.Client, client: triton.InferenceServerClient) -> None:
    zero = named("x", [1, 2], data=[0, 1])
    refused = edge.post("/v2/models/running-mean/versions/1/infer", json={"inputs": [zero]})
    assert (refused.status_code, refused.json()["details"]["reason"]) == (400, "not_in_json")
    tensor = triton.InferInput("x", [1, 2], "FP32")
    tensor.set_data_from_numpy(np.array([[0, 1]], np.float32))
    assert client.infer("running-mean", [tensor], model_version="1").as_numpy("y").tolist() == [[np.inf, 1.0]]


def test_models_versions_and_outputs_that_are_not_there_are_named_in_the_protocol_s_own_errors(
    edge: httpx.Client, client: triton.InferenceServerClient
) -> None:
    with pytest.raises(InferenceServerException, match="no such version"):
        client.infer("running-mean", mean_inputs(np.ones((1, 2), np.float32)), model_version="9")
    assert infer(edge, STATE, model="not-there").status_code == 404
    wrong = infer(edge, named("x", [1, 3]), STATE, outputs=[{"name": "nothing"}]).json()
    assert (wrong["param"], wrong["details"]["expected"]) == ("outputs[0].name", ["mean", "state_next"])


def test_a_model_without_its_weights_is_not_ready_and_the_others_are(
    edge: httpx.Client, client: triton.InferenceServerClient
) -> None:
    assert not client.is_model_ready("no-weights")
    refused = infer(edge, named("x", [1, 2]), model="no-weights")
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert "cannot be loaded" in refused.json()["error"]
    assert client.is_model_ready("running-mean")
