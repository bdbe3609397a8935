"""Every wrong request gets a 4xx in OpenAI's shape that names the field, and the next request is fine."""

from __future__ import annotations

import asyncio
import json

from tests.gateway.conftest import HouseFactory

GOOD = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}


def body(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


BODIES = {
    "half an object": (b"{", 400, None),
    "nothing": (b"", 400, None),
    "a list": (b"[]", 400, None),
    "not a number": (b'{"model": "auto", "messages": NaN}', 400, None),
    "not UTF-8": (b'\xff\xfe{"model": "auto"}', 400, None),
    "a key twice": (b'{"model":"auto","model":"auto","messages":[{"role":"user","content":"x"}]}', 400, "model"),
    "too deep": (b'{"a":' * 100 + b"1" + b"}" * 100, 400, None),
    "no message": (body(messages=[]), 400, "messages"),
    "messages as text": (body(messages="hi"), 400, "messages"),
    "a message as a number": (body(messages=[1]), 400, "messages[0]"),
    "a role that is none": (body(messages=[{"role": "robot", "content": "x"}]), 400, "messages[0].role"),
    "content as a number": (body(messages=[{"role": "user", "content": 5}]), 400, "messages[0].content"),
    "no content": (body(messages=[{"role": "user"}]), 400, "messages[0].content"),
    "a model as a number": (body(model=7), 400, "model"),
    "a model that is not served": (body(model="gpt-9"), 404, "model"),
    "stream as text": (body(stream="yes"), 400, "stream"),
    "temperature as text": (body(temperature="hot"), 400, "temperature"),
    "too hot": (body(temperature=9), 400, "temperature"),
    "a negative share": (body(top_p=-1), 400, "top_p"),
    "fewer than no tokens": (body(max_tokens=-1), 400, "max_tokens"),
    "half a token": (body(max_tokens=1.5), 400, "max_tokens"),
    "a yes for a number": (body(max_tokens=True), 400, "max_tokens"),
    "an empty stop": (body(stop=[""]), 400, "stop[0]"),
    "no answers": (body(n=0), 400, "n"),
    "tools as text": (body(tools="x"), 400, "tools"),
    "options as a number": (body(stream_options=3), 400, "stream_options"),
    "a destination": (body(api_base="http://169.254.169.254/"), 400, "api_base"),
    "another destination": (body(base_url="http://127.0.0.1:1"), 400, "base_url"),
    "headers of its own": (body(extra_headers={"a": "b"}), 400, "extra_headers"),
}
HEADERS = [
    ("x-latency-budget-ms", "-5"),
    ("x-latency-budget-ms", "soon"),
    ("x-latency-budget-ms", "0"),
    ("x-ttft-budget-ms", "nan"),
    ("grpc-timeout", "10"),
    ("x-data-class", "secretish"),
    ("x-data-class", "public, restricted"),
    ("x-data-tags", "a b!"),
]


async def test_a_wrong_body_is_refused_by_name_and_nothing_is_sent(house: HouseFactory) -> None:
    async with house() as h:
        for name, (raw, status, param) in BODIES.items():
            headers = {"content-type": "application/json"}
            response = await h.gateway.client.post("/v1/chat/completions", content=raw, headers=headers)
            error = response.json()["error"]
            assert (response.status_code, error["param"]) == (status, param), (name, error)
            assert error["type"] == "invalid_request_error", name
            assert error["request_id"] == response.headers["x-request-id"], name
            if param is not None:
                assert param.split(".")[-1].split("[")[0] in error["message"], name
            assert not h.edge.posts + h.cloud.posts, name
        assert (await h.gateway.chat()).status_code == 200


async def test_a_wrong_header_is_refused_by_name(house: HouseFactory) -> None:
    async with house() as h:
        for name, value in HEADERS:
            response = await h.gateway.chat(headers={name: value})
            error = response.json()["error"]
            assert (response.status_code, error["code"], error["param"]) == (400, "invalid_header", name), value
            assert name in error["message"]
            assert not h.edge.posts + h.cloud.posts, (name, value)
        assert (await h.gateway.chat()).status_code == 200


async def test_a_body_of_40_mb_is_a_413_and_the_gateway_goes_on(house: HouseFactory) -> None:
    async with house() as h:
        response = await h.gateway.chat("x" * (40 << 20))
        assert response.status_code == 413
        assert response.json()["error"]["details"]["limit_bytes"] == 32 << 20
        assert (await h.gateway.chat()).status_code == 200


async def test_a_body_without_a_length_is_bounded_all_the_same(house: HouseFactory) -> None:
    async with house(limits={"body_bytes": 1000}) as h:

        async def trickle() -> object:
            for _ in range(20):
                yield b" " * 100

        response = await h.gateway.client.post("/v1/chat/completions", content=trickle())
        assert response.status_code == 413


async def test_a_compressed_body_is_a_415(house: HouseFactory) -> None:
    async with house() as h:
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        response = await h.gateway.client.post("/v1/chat/completions", content=b"\x1f\x8b", headers=headers)
        assert response.status_code == 415


async def test_unknown_paths_and_methods_have_the_same_error_shape(house: HouseFactory) -> None:
    async with house() as h:
        missing = await h.gateway.client.get("/v1/nothing")
        wrong = await h.gateway.client.get("/v1/chat/completions")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")


async def test_no_error_message_repeats_the_prompt(house: HouseFactory) -> None:
    async with house() as h:
        secret = "canary-4f1b"
        raw = [
            body(messages=[{"role": secret, "content": secret}]),
            body(model=secret, user=secret),
            b'{"' + secret.encode(),
        ]
        for each in raw:
            response = await h.gateway.client.post("/v1/chat/completions", content=each)
            assert response.status_code in (400, 404)
            assert secret not in response.text


async def test_a_body_that_never_comes_does_not_keep_its_place(house: HouseFactory) -> None:
    async with house(timeouts={"body_s": 0.05}, limits={"concurrent_requests": 1}) as h:
        url = h.gateway.client.base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{")
        answer = await asyncio.wait_for(reader.read(), 5)  # to the end: the gateway hangs up
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"request_timeout"' in answer
        assert (await h.gateway.chat()).status_code == 200
        writer.close()
        await writer.wait_closed()


async def test_a_parameter_that_no_target_knows_is_refused_by_name_before_anything_is_asked(
    house: HouseFactory,
) -> None:
    async with house() as h:
        for parameter, value in [("logit_bias", {"5": -100}), ("presence_penalty", 0.5)]:
            content = body(**{parameter: value})
            error = (await h.gateway.client.post("/v1/chat/completions", content=content)).json()["error"]
            assert (error["code"], error["param"]) == ("capability_unavailable", parameter)
        assert not [*h.edge.posts, *h.cloud.posts]
