"""Tensors go the way of chats: labelled, decided, recorded, to whoever computes them, and their bytes as they came."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest

from inference_protocol.open_inference.datatypes import Datatype
from inference_protocol.open_inference.infer_answer import OutputTensor, write_answer
from inference_protocol.request import GENERATES, Task
from routing_policies.policy.loader import load_text
from tests.gateway.conftest import House, HouseFactory
from tests.gateway.test_identity import bearer, key
from tests.support.canaries import Sinks
from tests.support.scripted_runtime import MODEL, Received, ScriptedRuntime, state

EMAIL = "jane.doe@corp.com"
POLICY = """
apiVersion: tidegate/v1
name: computing
defaults: {class: public}
targets:
  cloud: {kind: cloud, clearance: internal, pseudonymize: [pii], quality: 1.0}
  edge:  {kind: edge, clearance: restricted, quality: 0.1}
weights: {quality: 1.0}
"""
OPEN = POLICY.replace("targets:", "uninspected: {blob: internal}\ntargets:", 1)
PATH = f"/v2/models/{MODEL}/infer"
COMPUTES = GENERATES | {Task.TENSOR}


async def answers(request: Received) -> None:
    """Give four bytes back as a tensor, as bytes where that is asked for."""
    binary = b"binary_data_output" in request.body
    data = b"\x01\x02\x03\x04" if binary else b"[1,2,3,4]"
    answer = write_answer("served-name", "1", None, [OutputTensor("y", Datatype.UINT8, (4,), data, binary)], {})
    kind = "application/octet-stream" if binary else "application/json"
    length = "" if answer.json_bytes is None else f"inference-header-content-length: {answer.json_bytes}\r\n"
    head = f"HTTP/1.1 200 X\r\ncontent-type: {kind}\r\n{length}content-length: {len(answer.body)}\r\n\r\n"
    await request.send(head.encode() + answer.body)


def runtimes(answer: Any = answers, **tasks: Any) -> dict[str, ScriptedRuntime]:
    return {
        "edge": ScriptedRuntime(answer, state(tasks=COMPUTES)),
        "cloud": ScriptedRuntime(answer, state(window=8192, **(tasks or {"tasks": COMPUTES}))),
    }


def text(value: str) -> dict[str, Any]:
    return {"name": "who", "datatype": "BYTES", "shape": [1], "data": [value]}


NUMBERS = {"name": "x", "datatype": "UINT8", "shape": [3], "data": [1, 2, 3]}


async def infer(h: House, *inputs: dict[str, Any], path: str = PATH, **fields: Any) -> httpx.Response:
    return await h.gateway.client.post(path, json={"inputs": list(inputs), **fields})


async def test_text_is_scanned_and_numbers_have_the_class_that_the_policy_gives_a_blob(house: HouseFactory) -> None:
    async with house(loaded=load_text(POLICY, "p.yaml"), **runtimes()) as h:
        plain = await infer(h, text("the sea"))
        personal = await infer(h, text(f"write to {EMAIL}"))
        beside = await infer(h, text("the sea"), parameters={"note": EMAIL})
        numbers = await infer(h, NUMBERS)
        outcomes = await h.until_settled(4)
    found = [each.headers["x-tidegate-target"] for each in (plain, personal, beside, numbers)]
    assert found == ["cloud", "edge", "edge", "edge"]
    assert numbers.headers["x-tidegate-label"].startswith("confidential")
    assert "email" in personal.headers["x-tidegate-label"]
    assert {each["outcome"] for each in outcomes} == {"ok"}


async def test_a_policy_that_trusts_a_cloud_with_blobs_sends_it_the_very_bytes_and_back(
    house: HouseFactory, sinks: Sinks
) -> None:
    secret = b"never-to-be-logged-5550199"
    tensor = {"name": "x", "datatype": "UINT8", "shape": [len(secret)], "parameters": {"binary_data_size": len(secret)}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    fields = {"inference-header-content-length": str(len(head)), "content-type": "application/octet-stream"}
    async with house(loaded=load_text(OPEN, "p.yaml"), **runtimes()) as h:
        path = f"/v2/models/{MODEL}/versions/15/infer"
        answer = await h.gateway.client.post(path, content=head + secret, headers=fields)
        [outcome] = await h.until_settled(1)
        [asked] = h.cloud.posts
    assert asked.path == path
    assert asked.body == head + secret
    assert asked.headers["inference-header-content-length"] == str(len(head))
    size = int(answer.headers["inference-header-content-length"])
    assert json.loads(answer.content[:size])["model_name"] == MODEL
    assert answer.content[size:] == b"\x01\x02\x03\x04"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert outcome["route"] == "/v2/models/{model}/versions/{version}/infer"
    assert sinks.holding(secret.decode(), base64.b64encode(secret).decode()) == []


async def test_only_who_computes_this_model_is_asked(house: HouseFactory) -> None:
    async with house(loaded=load_text(POLICY, "p.yaml"), **runtimes(tasks=GENERATES)) as h:
        answer = await infer(h, text("the sea"))
    assert answer.headers["x-tidegate-target"] == "edge"
    nobody = {"edge": ScriptedRuntime(), "cloud": ScriptedRuntime(report=state(window=8192))}
    async with house(loaded=load_text(POLICY, "p.yaml"), **nobody) as h:
        refused = await infer(h, text("the sea"))
        unknown = await infer(h, text("the sea"), path="/v2/models/nothing/infer")
        assert h.edge.posts == h.cloud.posts == []
    assert (refused.status_code, refused.json()["code"]) == (400, "capability_unavailable")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "model_not_found")
    assert isinstance(unknown.json()["error"], str)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (PATH, {"inputs": []}, "inputs"),
        (PATH, {"inputs": [{**NUMBERS, "data": [1, 2]}]}, "inputs[0].data"),
        (PATH, {"inputs": [NUMBERS], "api_base": "http://elsewhere"}, "api_base"),
        (f"/v2/models/{MODEL}/versions/..%2F..%2Fx/infer", {"inputs": [NUMBERS]}, None),
        (f"/v2/models/{MODEL}/versions/a%20b/infer", {"inputs": [NUMBERS]}, "version"),
        ("/v2/models/%7Bmodel%7D/infer", {"inputs": [NUMBERS]}, "model"),
    ],
)
async def test_what_is_wrong_is_said_as_the_protocol_says_it_and_sent_to_nobody(
    house: HouseFactory, path: str, body: dict[str, Any], param: str | None
) -> None:
    async with house(**runtimes()) as h:
        answer = await h.gateway.client.post(path, json=body)
        assert h.edge.posts == h.cloud.posts == []
    assert answer.status_code in {400, 404}
    assert isinstance(answer.json()["error"], str)
    assert answer.json()["param"] == param


async def test_a_wrong_length_of_the_json_is_refused(house: HouseFactory) -> None:
    async with house(**runtimes()) as h:
        body = json.dumps({"inputs": [NUMBERS]}).encode()
        for said in ("999999", "-1", "x"):
            answer = await h.gateway.client.post(PATH, content=body, headers={"inference-header-content-length": said})
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_header")


@pytest.mark.parametrize(
    "said", [{"outputs": 3}, {"outputs": [{"name": "y", "datatype": "UINT8", "shape": [4]}]}, {"model_name": "m"}]
)
async def test_an_answer_that_is_none_goes_to_the_next_target(house: HouseFactory, said: dict[str, Any]) -> None:
    async def broken(request: Received) -> None:
        await request.json_answer(200, said)

    async with house(loaded=load_text(POLICY, "p.yaml"), **runtimes()) as h:
        h.cloud.answer = broken
        answer = await infer(h, text("the sea"))
        h.edge.answer = broken
        failed = await infer(h, text("the sea"))
    assert answer.headers["x-tidegate-target"] == "edge"
    assert (failed.status_code, failed.json()["code"]) == (502, "upstream_protocol")


async def test_a_target_s_own_words_on_a_wrong_tensor_reach_the_caller(house: HouseFactory) -> None:
    async def refuses(request: Received) -> None:
        said = {"error": "`inputs[0]` has the shape [3]", "param": "inputs[0].shape", "code": "invalid_field"}
        await request.json_answer(400, said)

    async with house(**runtimes(refuses)) as h:
        answer = await infer(h, NUMBERS)
    assert (answer.status_code, answer.json()["param"]) == (400, "inputs[0].shape")
    assert "has the shape [3]" in answer.json()["error"]


async def test_health_is_told_to_everybody_and_models_by_their_target(house: HouseFactory) -> None:
    async with house(**runtimes()) as h:
        live, ready, server = [
            await h.gateway.client.get(f"/v2{path}") for path in ("/health/live", "/health/ready", "")
        ]
        known = await h.gateway.client.get(f"/v2/models/{MODEL}/ready")
        unknown = await h.gateway.client.get("/v2/models/nothing/ready")
        asked = [request.path for request in (*h.edge.requests, *h.cloud.requests) if request.path.startswith("/v2")]
    assert [each.status_code for each in (live, ready, server, known, unknown)] == [200, 200, 200, 200, 404]
    assert "binary_tensor_data" in server.json()["extensions"]
    assert asked == [f"/v2/models/{MODEL}/ready"]


async def test_an_explanation_reads_tensors_by_the_model_in_the_body(house: HouseFactory) -> None:
    async with house(loaded=load_text(POLICY, "p.yaml"), **runtimes()) as h:
        answer = await h.gateway.client.post("/v1/route/explain", json={"model": MODEL, "inputs": [NUMBERS]})
        assert h.edge.posts == h.cloud.posts == []
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-tidegate-label"].startswith("confidential")


async def test_a_camera_s_key_may_give_its_blobs_another_class_and_is_held_to_its_limits(house: HouseFactory) -> None:
    keys = [key("door-cam", uninspected={"blob": "internal"}, requests_per_minute=1), key("phone")]
    async with house(loaded=load_text(POLICY, "p.yaml"), auth={"keys": keys}, **runtimes()) as h:
        found = {}
        for name in ("door-cam", "phone"):
            answer = await h.gateway.client.post(PATH, json={"inputs": [NUMBERS]}, headers=bearer(name))
            found[name] = answer.headers["x-tidegate-target"]
        again = await h.gateway.client.post(PATH, json={"inputs": [NUMBERS]}, headers=bearer("door-cam"))
        nobody = await h.gateway.client.post(PATH, json={"inputs": [NUMBERS]})
        models = await h.gateway.client.get(f"/v2/models/{MODEL}")
        health = await h.gateway.client.get("/v2/health/ready")
    assert found == {"door-cam": "cloud", "phone": "edge"}
    assert (again.status_code, again.json()["code"]) == (429, "quota_exceeded")
    assert [each.status_code for each in (nobody, models, health)] == [401, 401, 200]
    assert isinstance(models.json()["error"], str)


async def test_numbers_in_a_tensor_are_traced_and_counted_as_tensors(house: HouseFactory) -> None:
    async with house(loaded=load_text(POLICY, "p.yaml"), **runtimes()) as h:
        await infer(h, NUMBERS)
        await h.until_settled(1)
        state_dir = h.gateway.state_dir
    spans = [
        span
        for line in (state_dir / "traces" / "gateway.jsonl").read_text(encoding="utf-8").splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    assert {"POST /v2/models/{model}/infer", f"infer {MODEL}"} <= {span["name"] for span in spans}
