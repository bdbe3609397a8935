"""What web pages may ask of a program on this machine, and under which names anybody may, over real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.settings import Listen, Settings
from serving.web_guard import Pages
from tests.gateway.conftest import HouseFactory
from tests.gateway.test_identity import key
from tests.support.raw_http import asked, status

PAGE = "https://app.example.com"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8080", 200),
        ("LocalHost:1", 200),
        ("[::1]:8080", 200),
        ("api.example.com", 200),
        ("evil.example", 421),
        ("evil.example:8080", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.", 421),
        ("2130706433", 421),
        ("x/?", 400),
        ("127.0.0.1/", 400),
        ("127.0.0.1#", 400),
        ("127.0.0.1/livez?", 400),
        ("user@127.0.0.1", 400),
        ("127.0.0.1:80:80", 400),
        ("127.0.0.1, evil.example", 400),
        ("", 400),
        ("localhost\x00", 400),
        ("lоcalhost".encode().decode("latin-1"), 400),
    ],
)
async def test_only_names_that_are_served_here_are_answered_for(house: HouseFactory, host: str, expected: int) -> None:
    async with house(listen={"hosts": ["api.example.com"]}) as h:
        answer = await asked(h.gateway.url, f"host: {host}")
        assert status(answer) == expected
        assert "evil" not in answer


async def test_a_request_has_one_host_and_only_the_oldest_clients_none(house: HouseFactory) -> None:
    async with house() as h:
        assert status(await asked(h.gateway.url, "host: localhost", "host: localhost")) == 400
        assert status(await asked(h.gateway.url)) == 400
        assert status(await asked(h.gateway.url, first="GET /livez HTTP/1.0")) == 200
        # Where the request line names a host, whatever it is, it decides nothing.
        absolute = "GET http://evil.example/livez HTTP/1.1"
        assert status(await asked(h.gateway.url, "host: localhost", first=absolute)) == 200
        assert (
            status(await asked(h.gateway.url, "host: evil.example", first="GET http://localhost/livez HTTP/1.1")) == 421
        )


async def test_the_host_says_nothing_of_the_path_and_no_address_is_made_of_it(house: HouseFactory) -> None:
    async with house(auth={"keys": [key("app1")]}) as h:
        for host in ("localhost/livez?", "localhost/livez#", "localhost?/livez"):
            answer = await asked(h.gateway.url, f"host: {host}", first="GET /v1/models HTTP/1.1")
            assert status(answer) == 400
        slash = await asked(h.gateway.url, "host: localhost", first="GET /livez/ HTTP/1.1")
        assert status(slash) == 401
        assert "location" not in slash.lower()


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://app.example.com", f"{PAGE}:444", f"{PAGE}.evil.example", "*"]
)
async def test_pages_that_are_not_listed_are_refused_though_they_ask_without_a_preflight(
    house: HouseFactory, origin: str
) -> None:
    async with house(listen={"cors_origins": [PAGE]}) as h:
        answer = await h.gateway.chat(headers={"origin": origin, "content-type": "text/plain"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "permission_denied")
        assert "access-control-allow-origin" not in answer.headers
        assert not h.edge.posts + h.cloud.posts


async def test_a_listed_page_asks_and_reads_the_answer_and_its_headers(house: HouseFactory) -> None:
    async with house(listen={"cors_origins": [PAGE]}) as h:
        for stream in (False, True):
            answer = await h.gateway.chat(stream=stream, headers={"origin": PAGE})
            assert answer.status_code == 200
            assert answer.headers["access-control-allow-origin"] == PAGE
            assert answer.headers["vary"] == "origin"
            assert "x-tidegate-target" in answer.headers["access-control-expose-headers"]
            assert "access-control-allow-credentials" not in answer.headers
        fault = await h.gateway.client.get("/v1/none", headers={"origin": PAGE})
        assert (fault.status_code, fault.headers["access-control-allow-origin"]) == (404, PAGE)
        plain = await h.gateway.chat()
        assert not {"vary", "access-control-allow-origin"} & plain.headers.keys()


async def test_a_preflight_of_a_listed_page_is_answered_without_a_key_and_of_any_other_refused(
    house: HouseFactory,
) -> None:
    wants = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-stainless-os",
        "access-control-request-private-network": "true",
    }
    async with house(listen={"cors_origins": [PAGE]}, auth={"keys": [key("app1")]}) as h:
        path = "/v1/chat/completions"
        allowed = await h.gateway.client.options(path, headers={"origin": PAGE, **wants})
        assert (allowed.status_code, allowed.content) == (204, b"")
        assert allowed.headers["access-control-allow-headers"] == wants["access-control-request-headers"]
        assert "POST" in allowed.headers["access-control-allow-methods"]
        assert allowed.headers["access-control-allow-private-network"] == "true"
        assert (
            await h.gateway.client.options(path, headers={"origin": "https://b.example", **wants})
        ).status_code == 403
        assert (await h.gateway.client.options(path, headers=wants)).status_code == 401
        odd = {"origin": PAGE, **wants, "access-control-request-headers": "a;b"}
        assert "access-control-allow-headers" not in (await h.gateway.client.options(path, headers=odd)).headers


def test_any_name_is_served_where_others_connect_unless_names_are_given() -> None:
    assert Pages.of("0.0.0.0", [], []).hosts is None
    assert Pages.of("0.0.0.0", ["API.example.com"], []).hosts == {"api.example.com"}
    assert Pages.of("127.0.0.2", [], []).hosts == {"localhost", "127.0.0.1", "[::1]", "127.0.0.2"}
    assert "[::1]" in (Listen(host="::1").pages().hosts or ())


@pytest.mark.parametrize("origin", ["*", "null", f"{PAGE}/", "https://*.example.com", "app.example.com"])
def test_an_origin_is_one_page_address_and_no_pattern(tmp_path: Path, origin: str) -> None:
    with pytest.raises(ValueError, match="cors_origins"):
        Settings(state_dir=tmp_path, listen={"cors_origins": [origin]})


async def test_an_app_with_a_scheme_of_its_own_can_be_listed(house: HouseFactory) -> None:
    async with house(listen={"cors_origins": ["capacitor://localhost"]}) as h:
        assert (await h.gateway.chat(headers={"origin": "capacitor://localhost"})).status_code == 200
