"""`/openapi.json` says what the routes do: held to the paths, to real answers and to real errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from inference_protocol import paths
from routing_policies.snapshot import Health
from tests.gateway.conftest import House, HouseFactory

NOT_DESCRIBED = {paths.STATE, paths.STEPS, paths.TOKENIZE, paths.OPENAPI}  # the runtimes' own, and the document itself
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}


async def document_of(h: House) -> dict[str, Any]:
    found: dict[str, Any] = (await h.gateway.client.get(paths.OPENAPI)).json()
    return found


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from ([node["$ref"]] if "$ref" in node else [])
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for item in node:
            yield from references(item)


def check(document: dict[str, Any], path: str, response: httpx.Response) -> None:
    """Hold an answer to what is said of it: its status, its headers, its members."""
    method = response.request.method.lower()
    said = document["paths"][path][method]["responses"].get(str(response.status_code))
    assert said is not None, f"{path} answered {response.status_code}, which the document does not know"
    assert said.get("headers", {}).keys() <= response.headers.keys()
    content_type = response.headers["content-type"].partition(";")[0]
    schema = said["content"][content_type]["schema"]
    if content_type == "application/json":
        _check_members(document, schema, response.json())


def _check_members(document: dict[str, Any], schema: dict[str, Any], value: Any) -> None:
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if schema.get("type") == "object":
        assert set(schema.get("required", ())) <= value.keys()
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                _check_members(document, inner, value[name])
    elif schema.get("type") == "string":
        assert isinstance(value, str)


async def test_every_route_is_described_and_nothing_else_is(house: HouseFactory) -> None:
    async with house() as h:
        document = await document_of(h)
        ours = {value for name, value in vars(paths).items() if name.isupper()} - NOT_DESCRIBED
        assert document["paths"].keys() == ours
        for path, methods in document["paths"].items():
            for method in ("get", "post"):
                found = await h.gateway.client.request(method, path)
                assert (found.status_code == 405) is (method not in methods), (method, path)
        names = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert set(references(document)) == names


async def test_good_answers_are_as_described(house: HouseFactory) -> None:
    async with house() as h:
        document = await document_of(h)
        for path in (paths.MODELS, paths.LIVE, paths.READY):
            check(document, path, await h.gateway.client.get(path))
        for model in ("auto", "none"):
            check(document, paths.MODEL, await h.gateway.client.get(paths.MODEL.format(model=model)))
        for body in (CHAT, {**CHAT, "stream": True}):
            check(document, paths.CHAT_COMPLETIONS, await h.gateway.client.post(paths.CHAT_COMPLETIONS, json=body))
        check(document, paths.ROUTE_EXPLAIN, await h.gateway.client.post(paths.ROUTE_EXPLAIN, json=CHAT))


async def test_kept_requests_are_as_described(house: HouseFactory) -> None:
    async with house(auth={"local_may": ["finish", "defer"]}) as h:
        document = await document_of(h)
        client, finish = h.gateway.client, {"x-on-disconnect": "finish"}
        for fields in ({}, {"stream": True}):
            asked = await client.post(paths.CHAT_COMPLETIONS, json={**CHAT, **fields}, headers=finish)
            request_id = asked.headers["x-request-id"]
            for path in (paths.KEPT_REQUEST, paths.KEPT_ANSWER, paths.KEPT_STREAM):
                check(document, path, await client.get(path.format(request_id=request_id)))
        past_all = {"last-event-id": "99999"}
        check(document, path, await client.get(path.format(request_id=request_id), headers=past_all))
        ended = await client.delete(paths.KEPT_REQUEST.format(request_id=request_id))
        assert str(ended.status_code) in document["paths"][paths.KEPT_REQUEST]["delete"]["responses"]
        check(document, paths.KEPT_REQUEST, await client.get(paths.KEPT_REQUEST.format(request_id=request_id)))
        await h.edge.stop()
        await h.gateway.until_health(edge=Health.DOWN)
        restricted = {"x-data-class": "restricted"}
        put_off = await client.post(paths.CHAT_COMPLETIONS, json={**CHAT, "deferrable": True}, headers=restricted)
        assert put_off.status_code == 202
        check(document, paths.CHAT_COMPLETIONS, put_off)
        check(document, paths.KEPT_REQUEST, await client.get(put_off.json()["status_url"]))
        check(document, paths.KEPT_ANSWER, await client.get(put_off.json()["answer_url"]))


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({}, {}, 400),
        ({**CHAT, "model": "gpt"}, {}, 404),
        ({**CHAT, "user": "x" * 5000}, {}, 413),
        (CHAT, {"content-encoding": "gzip"}, 415),
        (CHAT, {"x-latency-budget-ms": "0"}, 400),
        (CHAT, {"x-data-class": "restricted"}, 503),
    ],
)
async def test_errors_are_as_described(
    house: HouseFactory, body: dict[str, Any], headers: dict[str, str], status: int
) -> None:
    async with house(limits={"body_bytes": 4000}) as h:
        document = await document_of(h)
        if status == 503:
            await h.edge.stop()
        response = await h.gateway.client.post(paths.CHAT_COMPLETIONS, json=body, headers=headers)
        assert response.status_code == status
        check(document, paths.CHAT_COMPLETIONS, response)
        codes = document["paths"][paths.CHAT_COMPLETIONS]["post"]["responses"][str(status)]["description"]
        assert response.json()["error"]["code"] in codes
