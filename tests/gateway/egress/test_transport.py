"""The transport tells apart what the other side can have seen, and adds nothing of its own."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from gateway.egress.endpoint import Endpoint
from gateway.egress.session import Reach
from gateway.egress.transport import AiohttpTransport
from tests.support.running_gateway import free_port
from tests.support.scripted_runtime import Received, ScriptedRuntime


def transport(endpoint: str) -> AiohttpTransport:
    return AiohttpTransport(Reach(Endpoint.parse(endpoint), connect_timeout_s=0.5, max_connections=4))


async def exchange(sender: AiohttpTransport, url: str, headers: dict[str, str] | None = None) -> httpx.Response:
    return await sender.handle_async_request(httpx.Request("POST", url, content=b"{}", headers=headers))


async def test_nobody_listening_is_a_connect_error() -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    sender = transport(endpoint)
    with pytest.raises(httpx.ConnectError):
        await exchange(sender, f"{endpoint}/x")
    await sender.aclose()


@pytest.mark.parametrize("other", ["http://127.0.0.2:{port}", "http://127.0.0.1:1", "https://127.0.0.1:{port}"])
async def test_a_transport_leads_to_its_own_endpoint_and_nowhere_else(other: str) -> None:
    async with ScriptedRuntime() as runtime:
        sender = transport(runtime.endpoint)
        with pytest.raises(httpx.UnsupportedProtocol):
            await exchange(sender, other.format(port=runtime.port) + "/x", {"authorization": "Bearer of-this-host"})
        assert not runtime.connections
        await sender.aclose()


async def test_a_connection_closed_after_the_request_arrived_is_not_a_connect_error() -> None:
    async def cuts(request: Received) -> None:
        request.cut()

    async with ScriptedRuntime(cuts) as runtime:
        sender = transport(runtime.endpoint)
        with pytest.raises(httpx.RemoteProtocolError):
            await exchange(sender, runtime.endpoint + "/x")
        assert len(runtime.posts) == 1, "the request was sent twice"
        await sender.aclose()


async def test_a_cookie_that_one_answer_sets_is_not_sent_with_the_next_request() -> None:
    async def sets_cookie(request: Received) -> None:
        await request.json_answer(200, {}, "set-cookie: session=of-another-caller\r\n")

    async with ScriptedRuntime(sets_cookie) as runtime:
        sender = transport(runtime.endpoint)
        for _ in range(2):
            response = await exchange(sender, runtime.endpoint + "/x")
            await response.aread()
        assert "cookie" not in runtime.posts[1].headers
        await sender.aclose()


async def test_only_the_headers_given_are_sent_and_no_redirect_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def redirects(request: Received) -> None:
        await request.json_answer(307, {}, "location: /elsewhere\r\n")

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with ScriptedRuntime(redirects) as runtime:
        sender = transport(runtime.endpoint)
        response = await exchange(sender, runtime.endpoint + "/x", {"x-one": "1"})
        await response.aread()
        assert response.status_code == 307
        assert runtime.posts[0].headers.keys() == {"host", "content-length", "x-one"}
        assert [r.path for r in runtime.requests] == ["/x"]
        await sender.aclose()


async def test_closing_a_body_before_its_end_hangs_up() -> None:
    async def streams(request: Received) -> None:
        await request.head()
        await request.chunk(b"one")
        await asyncio.Event().wait()

    async with ScriptedRuntime(streams) as runtime:
        sender = transport(runtime.endpoint)
        response = await exchange(sender, runtime.endpoint + "/x")
        assert isinstance(response.stream, httpx.AsyncByteStream)
        assert await anext(aiter(response.stream)) == b"one"
        await response.stream.aclose()
        async with asyncio.timeout(2):
            await runtime.posts[0].gone.wait()
        await sender.aclose()


async def test_a_unix_socket_is_reached_like_any_other_address(tmp_path: object) -> None:
    path = f"{tmp_path}/s.sock"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(serve, path)
    sender = transport(f"unix:{path}")
    response = await exchange(sender, "http://localhost/x")
    assert await response.aread() == b"ok"
    await sender.aclose()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize(
    "text", ["ftp://x", "http://user:pw@host", "http://host?x=1", "unix:relative", "http://", "host:80", "http://h#f"]
)
def test_an_address_that_is_not_one_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must|names no user"):
        Endpoint.parse(text)


def test_a_base_that_ends_in_v1_is_not_given_a_second_one() -> None:
    assert str(Endpoint.parse("https://h/v1").url("/v1/chat/completions")) == "https://h/v1/chat/completions"
    assert str(Endpoint.parse("https://h").url("/v1/chat/completions")) == "https://h/v1/chat/completions"
    assert str(Endpoint.parse("https://h/openai/").url("/v1/models")) == "https://h/openai/v1/models"
