"""What a caller hides in heads, queries and framing changes nothing: it is refused, or it is as if it had not come."""

from __future__ import annotations

import json

import pytest

from gateway.api.request_headers import read_headers
from inference_protocol import headers
from tests.gateway.conftest import HouseFactory
from tests.gateway.test_identity import SECRET, bearer, key
from tests.support.raw_http import asked, exchanged, status

BODY = json.dumps({"model": "auto", "messages": [{"role": "user", "content": "hello"}]}).encode()
CHAT = "POST /v1/chat/completions HTTP/1.1"
# A request that would be answered, if somebody took it for one.
HIDDEN = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx-hidden: yes\r\n\r\n"


def framed(*fields: str, body: bytes = BODY, first: str = CHAT) -> bytes:
    return "\r\n".join([first, "host: localhost", *fields, "", ""]).encode("latin-1") + body


LENGTH = f"content-length: {len(BODY)}"
AMBIGUOUS = {
    "a length and chunks": framed(LENGTH, "transfer-encoding: chunked", body=b"0\r\n\r\n" + HIDDEN),
    "chunks and a length": framed("transfer-encoding: chunked", "content-length: 5", body=b"0\r\n\r\n" + HIDDEN),
    "two lengths": framed("content-length: 0", LENGTH, body=HIDDEN),
    "a list of lengths": framed("content-length: 0, 80", body=HIDDEN),
    "a signed length": framed("content-length: +80", body=HIDDEN),
    "a length in hexadecimal": framed("content-length: 0x50", body=HIDDEN),
    "a space before the colon": framed("content-length : 0", LENGTH, body=BODY),
    "a folded header": framed("transfer-encoding:\r\n chunked", body=HIDDEN),
    "chunks, almost": framed("transfer-encoding: xchunked", LENGTH, body=HIDDEN),
    "chunks, twice": framed("transfer-encoding: chunked, chunked", body=b"0\r\n\r\n" + HIDDEN),
    "chunks, then something": framed("transfer-encoding: chunked, identity", body=b"0\r\n\r\n" + HIDDEN),
    "bare line feeds": framed(LENGTH).replace(b"\r\n", b"\n"),
    "a bare carriage return": framed("x-a: b\rtransfer-encoding: chunked", LENGTH),
    "a zero byte": framed("x-a: b\0c", LENGTH),
    "a chunk's length with a sign": framed("transfer-encoding: chunked", body=b"-1\r\n" + HIDDEN),
    "a chunk's length without end": framed("transfer-encoding: chunked", body=b"f" * 20 + b"\r\n" + HIDDEN),
    "a chunk longer than it says": framed("transfer-encoding: chunked", body=b"1\r\nab\r\n0\r\n\r\n" + HIDDEN),
    "no version": framed(LENGTH, first="POST /v1/chat/completions"),
    "a path with a space": framed(LENGTH, first="GET /livez /v1/models HTTP/1.1"),
    "a header without a name": framed(": x", LENGTH),
}


@pytest.mark.parametrize("how", AMBIGUOUS)
async def test_framing_that_can_be_read_in_two_ways_is_read_in_none(house: HouseFactory, how: str) -> None:
    async with house() as h:
        answer = await exchanged(h.gateway.url, AMBIGUOUS[how])
        assert status(answer.decode("latin-1")) == 400
        # One answer, and the connection is over: whatever followed is nobody's request.
        assert answer.count(b"HTTP/1.1 ") == 1
        assert b'"live"' not in answer
        assert not h.edge.posts + h.cloud.posts
        assert (await h.gateway.chat()).status_code == 200


async def test_no_header_that_is_ours_to_say_is_taken_from_a_caller(house: HouseFactory) -> None:
    ours = {value for name, value in vars(headers).items() if name.isupper() and str(value).startswith("x-tidegate-")}
    told = {name: "edge; forged" for name in (ours | {"x-tidegate-target", "x-tidegate-anything"}) - {"x-tidegate-"}}
    rates = {name: "999" for name in vars(headers).values() if str(name).startswith("x-ratelimit-")}
    private = {"x-forwarded-for": "127.0.0.1", "x-real-ip": "::1", "forwarded": "for=::1", "cookie": "a=b"}
    async with house() as h:
        plain = await h.gateway.chat("word " * 800)
        forged = await h.gateway.chat("word " * 800, headers={**told, **rates, **private})
        assert forged.status_code == 200
        assert forged.headers["x-tidegate-target"] == plain.headers["x-tidegate-target"] == "cloud"
        assert forged.headers["x-tidegate-reason"] == plain.headers["x-tidegate-reason"]
        assert "forged" not in str(forged.headers)
        first, second = h.cloud.posts
        varying = {"traceparent", headers.REQUEST_ID}
        assert {n: v for n, v in first.headers.items() if n not in varying} == {
            n: v for n, v in second.headers.items() if n not in varying
        }


@pytest.mark.parametrize(
    "name", ["authorization", "x-data-class", "x-latency-budget-ms", "x-on-disconnect", "content-length"]
)
async def test_a_header_that_says_two_things_is_refused_and_none_is_picked(house: HouseFactory, name: str) -> None:
    good = {
        "authorization": f"Bearer app1.{SECRET}",
        "x-data-class": "restricted",
        "x-latency-budget-ms": "5000",
        "x-on-disconnect": "stop",
        "content-length": str(len(BODY)),
    }
    other = {
        "authorization": "Bearer app2.x",
        "x-data-class": "public",
        "x-latency-budget-ms": "1",
        "x-on-disconnect": "finish",
        "content-length": "3",
    }
    async with house(auth={"keys": [key("app1")]}) as h:
        for first, second in ((good, other), (other, good)):
            twice = [f"{name}: {first[name]}", f"{name}: {second[name]}"]
            rest = [f"{n}: {v}" for n, v in good.items() if n in ("authorization", "content-length") and n != name]
            answer = await exchanged(h.gateway.url, framed("connection: close", *twice, *rest))
            assert status(answer.decode()) == (401 if name == "authorization" else 400)
        assert not h.edge.posts + h.cloud.posts


@pytest.mark.parametrize("name", ["x_data_class", "x-data_class", "x_tidegate_target", "authorization_"])
async def test_a_header_with_an_underscore_is_another_header(house: HouseFactory, name: str) -> None:
    async with house(auth={"keys": [key("app1")]}) as h:
        fields = [f"{name}: restricted", f"authorization: Bearer app1.{SECRET}", LENGTH, "connection: close"]
        answer = await exchanged(h.gateway.url, framed(*fields))
        assert status(answer.decode()) == 200
        assert b"x-tidegate-label: restricted" not in answer


@pytest.mark.parametrize(
    "query",
    [
        f"authorization=Bearer%20app1.{SECRET}",
        f"api_key=app1.{SECRET}",
        f"access_token=app1.{SECRET}",
        f"key=app1.{SECRET}",
        "x-data-class=public",
        "path=/livez",
        "%0d%0aauthorization:%20Bearer%20app1",
    ],
)
async def test_nothing_in_a_query_lets_anybody_in_or_changes_a_label(house: HouseFactory, query: str) -> None:
    async with house(auth={"keys": [key("app1", data_class="restricted")]}) as h:
        path = f"/v1/chat/completions?{query}"
        body = json.loads(BODY)
        assert (await h.gateway.client.post(path, json=body)).status_code == 401
        allowed = await h.gateway.client.post(path, json=body, headers=bearer("app1"))
        assert allowed.headers["x-tidegate-label"].startswith("restricted")
        assert SECRET not in json.dumps([[r.path, r.headers] for r in h.edge.requests + h.cloud.requests])


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions;/../../livez",
        "/livez/../v1/chat/completions",
        "/%2e%2e/v1/chat/completions",
        "/v1//chat/completions",
        "/v1/chat/completions%00",
        "/v1/chat/completions%2f",
        "/V1/chat/completions",
        "/v1/requests/..%2f..%2fstatus",
    ],
)
async def test_a_path_that_only_looks_like_another_is_none(house: HouseFactory, path: str) -> None:
    async with house(auth={"keys": [key("app1")]}) as h:
        fields, first = ["host: localhost", "content-length: 0"], f"POST {path} HTTP/1.1"
        assert status(await asked(h.gateway.url, *fields, first=first)) == 401
        fields.append(f"authorization: Bearer app1.{SECRET}")
        assert status(await asked(h.gateway.url, *fields, first=first)) in {404, 405}
        assert not h.edge.posts + h.cloud.posts


def test_what_is_ours_to_say_is_dropped_as_a_head_is_read_and_what_comes_twice_is_joined() -> None:
    fields = [(b"x-tidegate-late", b"truncate"), (b"x-tidegate-", b"x"), (b"a", b"1"), (b"a", b"2")]
    assert read_headers({"headers": fields}) == {"a": "1, 2"}
