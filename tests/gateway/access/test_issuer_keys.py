"""Issuers' keys: fetched in the background and once for all, held for a while, and never in doubt's favour."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path

import pytest

from gateway.access.tokens import TokenRefused
from inference_protocol.errors import IssuerUnavailable
from tests.gateway.access.test_tokens import PROVIDER, Clock, settings, tokens
from tests.gateway.conftest import HouseFactory
from tests.gateway.test_identity import bearer as key_bearer
from tests.gateway.test_identity import key
from tests.support.identity_provider import KeyHost, Provider, SigningKey, base64url, bearer
from tests.support.waiting import until


async def test_a_new_key_works_at_once_and_a_withdrawn_one_no_more(house: HouseFactory, tmp_path: Path) -> None:
    provider = Provider(keys=[SigningKey("old")])
    async with KeyHost(provider) as host:
        issuer = settings(provider, tmp_path, jwks_url=host.url, jwks_file=None, refresh_s=600)
        async with house(auth={"issuers": {"corp": issuer}}) as h:
            old = provider.token()
            assert (await h.gateway.chat(headers=bearer(old))).status_code == 200
            asked = host.asked
            # Callers who name keys that nobody knows make us ask once, not once for each.
            strangers = [Provider(keys=[SigningKey("none")]).token() for _ in range(20)]
            answers = await asyncio.gather(*(h.gateway.chat(headers=bearer(each)) for each in strangers))
            assert {answer.status_code for answer in answers} == {401}
            assert host.asked - asked <= 1
            provider.keys = [SigningKey("new")]
            h.gateway.app.reload()

            async def took_it_up() -> bool:
                return (await h.gateway.chat(headers=bearer(provider.token()))).status_code == 200

            await until(took_it_up)
            assert (await h.gateway.chat(headers=bearer(old))).status_code == 401


async def test_a_key_that_the_issuer_began_to_use_is_fetched_for_the_token_that_names_it(tmp_path: Path) -> None:
    clock = Clock()
    provider = Provider()
    async with KeyHost(provider) as host, aclosing(tokens(provider, tmp_path, clock, jwks_url=host.url)) as checks:
        await checks.check(provider.token())
        provider.keys.append(SigningKey("next"))
        with pytest.raises(TokenRefused):  # asked for a moment ago
            await checks.check(provider.token(key=provider.keys[1]))
        clock.ahead = 11.0
        assert (await checks.check(provider.token(key=provider.keys[1]))).id == "corp:ada"
        assert host.asked == 2


async def test_keys_are_fetched_once_for_all_who_wait_and_a_caller_who_leaves_takes_nobody_along(
    tmp_path: Path,
) -> None:
    provider = Provider()
    async with KeyHost(provider) as host, aclosing(tokens(provider, tmp_path, jwks_url=host.url)) as checks:
        host.may_answer.clear()
        waiting = [asyncio.create_task(checks.check(provider.token(sub=f"u{i}"))) for i in range(20)]
        await until(lambda: host.asked == 1)
        waiting[0].cancel()
        host.may_answer.set()
        found = await asyncio.gather(*waiting[1:])
        assert {each.id for each in found} == {f"corp:u{i}" for i in range(1, 20)}
        assert host.asked == 1


@pytest.mark.parametrize("fault", ["down", "slow", "a page", "an error", "too large", "no keys", "weak", "symmetric"])
async def test_without_keys_nobody_is_let_in_and_last_keys_hold_for_a_while(tmp_path: Path, fault: str) -> None:
    provider, clock = Provider(), Clock()
    async with (
        KeyHost(provider) as host,
        aclosing(tokens(provider, tmp_path, clock, jwks_url=host.url, keys_hold_s=3600)) as checks,
    ):
        await spoil(host, fault)
        with pytest.raises(IssuerUnavailable):
            await checks.check(provider.token())
        host.body, host.status = None, 200
        host.may_answer.set()
        if fault == "down":
            await host.__aenter__()
        clock.ahead = 11.0
        token = provider.token(exp=4_102_444_800)
        assert (await checks.check(token)).id == "corp:ada"
        await spoil(host, fault)
        clock.ahead = 3000.0
        assert (await checks.check(token)).id == "corp:ada"
        clock.ahead = 3700.0
        with pytest.raises(IssuerUnavailable):
            await checks.check(token)


async def test_an_issuer_is_asked_where_its_keys_are_and_only_that_host_is(tmp_path: Path) -> None:
    provider = Provider()
    async with KeyHost(provider) as host:
        provider.issuer = host.url.replace("/keys", "/realms/acme")
        host.about = {"issuer": provider.issuer, "jwks_uri": host.url}
        issuer = {"issuer": provider.issuer, "discover": True}
        async with aclosing(tokens(provider, tmp_path, **issuer)) as checks:
            assert (await checks.check(provider.token())).id == "corp:ada"
        assert host.paths == ["/realms/acme/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize(
    "about",
    [
        {"jwks_uri": "https://elsewhere.example/keys"},
        {"jwks_uri": "http://169.254.169.254/latest/meta-data"},
        {"jwks_uri": "unix:/run/secret.sock"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": 7},
        {"issuer": "https://elsewhere.example"},
        {"issuer": None},
    ],
)
async def test_an_issuer_that_leads_elsewhere_or_speaks_for_another_is_not_followed(
    tmp_path: Path, about: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    provider = Provider()
    async with KeyHost(provider) as host:
        provider.issuer = host.url.replace("/keys", "")
        host.about = {"issuer": provider.issuer, "jwks_uri": host.url, **about}
        issuer = {"issuer": provider.issuer, "discover": True}
        async with aclosing(tokens(provider, tmp_path, **issuer)) as checks:
            with pytest.raises(IssuerUnavailable):
                await checks.check(provider.token())
        assert host.paths == ["/.well-known/openid-configuration"], "nothing else was asked"
    assert "stay as they were" in caplog.text


async def spoil(host: KeyHost, fault: str) -> None:
    weak = {"kty": "RSA", "kid": "first", "n": base64url(b"\xff" * 128), "e": "AQAB", "alg": "RS256"}
    secret = {"kty": "oct", "kid": "first", "k": base64url(b"s" * 32), "alg": "HS256"}
    match fault:
        case "down":
            await host.stop()
        case "slow":
            host.may_answer.clear()
        case "an error":
            host.status = 500
        case _:
            host.body = {
                "a page": b"<html>",
                "too large": b'{"keys": []}' + b" " * (2 << 20),
                "no keys": b'{"keys": []}',
                "weak": json.dumps({"keys": [weak]}).encode(),
                "symmetric": json.dumps({"keys": [secret]}).encode(),
            }[fault]


async def test_a_caller_is_told_that_tokens_cannot_be_checked_and_keys_of_the_gateway_still_hold(
    house: HouseFactory, tmp_path: Path
) -> None:
    issuer = settings(PROVIDER, tmp_path, jwks_url="http://127.0.0.1:9/keys", jwks_file=None)
    async with house(auth={"keys": [key("app1")], "issuers": {"corp": issuer}}) as h:
        answer = await h.gateway.chat(headers=bearer(PROVIDER.token()))
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "issuer_unavailable")
        assert "retry-after" in answer.headers
        assert "127.0.0.1" not in answer.text
        assert (await h.gateway.chat(headers=key_bearer("app1"))).status_code == 200


async def test_a_file_of_keys_is_read_again_when_it_changes(house: HouseFactory, tmp_path: Path) -> None:
    provider = Provider()
    async with house(auth={"issuers": {"corp": settings(provider, tmp_path)}}) as h:
        assert (await h.gateway.chat(headers=bearer(provider.token()))).status_code == 200
        provider.keys = [SigningKey("second")]
        (tmp_path / "jwks.json").write_bytes(provider.jwks)

        async def holds() -> bool:
            return (await h.gateway.chat(headers=bearer(provider.token()))).status_code == 200

        await until(holds)
