"""Tokens of identity providers: those that hold are let in as what they say, and every other one is shut out."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from pydantic import ValidationError

from gateway.access.tokens import TokenRefused, Tokens
from gateway.access_settings import Auth
from gateway.issuer_settings import IssuerSettings
from tests.gateway.conftest import HouseFactory
from tests.support.identity_provider import AUDIENCE, ISSUER, Provider, SigningKey, base64url, bearer

PROVIDER = Provider()
RSA = SigningKey("rsa", "RS256")


def settings(provider: Provider, folder: Path, **other: Any) -> dict[str, Any]:
    """An issuer whose keys lie in a file."""
    file = folder / "jwks.json"
    file.write_bytes(provider.jwks)
    source = {} if {"jwks_url", "discover"} & set(other) else {"jwks_file": str(file)}
    told = {"issuer": ISSUER, "audiences": [AUDIENCE], "tenant": "acme", "roles": ["inference"]}
    return {**told, **source, **other}


class Clock:
    """Times that a test sets."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def tokens(provider: Provider, folder: Path, clock: Clock | None = None, **other: Any) -> Tokens:
    clock = clock or Clock()
    return Tokens(Auth(issuers={"corp": settings(provider, folder, **other)}), wall=clock, clock=clock)


async def test_a_token_is_let_in_as_its_tenant_with_its_roles_and_label(house: HouseFactory, tmp_path: Path) -> None:
    issuer = settings(PROVIDER, tmp_path, data_class="confidential")
    async with house(auth={"issuers": {"corp": issuer}}) as h:
        answer = await h.gateway.chat(headers=bearer(PROVIDER.token()))
        assert answer.status_code == 200
        assert answer.headers["x-tidegate-label"].startswith("confidential")
        refused = await h.gateway.chat(headers=bearer(PROVIDER.token(exp=1)))
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert (await h.gateway.chat()).status_code == 401
        found = await h.until_settled(3)
        assert [(each["outcome"], each["tenant"]) for each in found] == [
            ("ok", "acme"),
            ("unauthenticated", None),
            ("unauthenticated", None),
        ]


def bad_tokens() -> dict[str, str]:
    """Tokens that must not hold, each by one thing that is wrong with it."""
    good = PROVIDER.token()
    head, body, signature = good.split(".")
    stranger = SigningKey("first")
    key = PROVIDER.keys[0]
    inline = {"alg": "ES256", "jwk": stranger.jwk}
    other_body = base64url(json.dumps(PROVIDER.claims(sub="root")).encode())
    return {
        "unsigned": PROVIDER.forged({"alg": "none", "typ": "JWT"}, None),
        "unsigned, in other letters": PROVIDER.forged({"alg": "nOnE", "kid": "first"}, None),
        "signature left out": f"{head}.{body}.",
        "public key as the secret": PROVIDER.forged({"alg": "HS256", "kid": "first"}, key.pem),
        "public key's json as the secret": PROVIDER.forged(
            {"alg": "HS256", "kid": "first"}, json.dumps(key.jwk).encode()
        ),
        "another's key of the same id": PROVIDER.token(key=stranger),
        "a key that comes along": PROVIDER.token(key=stranger, headers=inline),
        "a key that is elsewhere": PROVIDER.token(key=stranger, headers={"jku": "http://127.0.0.1:9/keys"}),
        "other claims, same signature": f"{head}.{other_body}.{signature}",
        "algorithm not allowed": PROVIDER.token(key=SigningKey("first", "RS512")),
        "algorithm of another kind of key": PROVIDER.token(key=SigningKey("first", "RS256")),
        "other audience": PROVIDER.token(aud="billing"),
        "no audience": PROVIDER.token(aud=None),
        "other issuer": PROVIDER.token(iss="https://evil.example/"),
        "issuer almost": PROVIDER.token(iss=ISSUER.rstrip("/")),
        "issuers": PROVIDER.token()
        and jwt.encode({**PROVIDER.claims(), "iss": "x"}, key.private, "ES256", headers={"kid": "first"}),
        "no issuer": PROVIDER.token(iss=None),
        "expired": PROVIDER.token(exp=1_700_000_000),
        "no expiry": PROVIDER.token(exp=None),
        "expiry is text": PROVIDER.token(exp="4102444800"),
        "expiry is true": PROVIDER.token(exp=True),
        "expiry is endless": PROVIDER.token(exp=float("inf")),
        "expiry is no number": PROVIDER.token(exp=float("nan")),
        "not yet": PROVIDER.token(nbf=4_102_444_800),
        "made tomorrow": PROVIDER.token(iat=4_102_444_800),
        "no subject": PROVIDER.token(sub=None),
        "empty subject": PROVIDER.token(sub=""),
        "subject of two lines": PROVIDER.token(sub="ada\nbob"),
        "subject is a list": jwt.encode({**PROVIDER.claims(), "sub": "x" * 300}, key.private, "ES256"),
        "unknown key": PROVIDER.token(headers={"kid": "second"}),
        "key id is a list": good.replace(head, base64url(b'{"alg":"ES256","kid":["first"]}')),
        "critical extension": PROVIDER.token(headers={"crit": ["b64"], "b64": False}),
        "encrypted": f"{good}.x.y",
        "not json": "eyJ.eyJ.eyJ",
        "deep": f"{base64url(b'[' * 5000)}.{body}.{signature}".replace("W1tb", "eyJb", 1),
        "long": f"{good}{'A' * 20_000}",
        "not ascii": f"{good}\xe9",
    }


@pytest.mark.parametrize("what", bad_tokens())
async def test_a_token_that_does_not_hold_is_shut_out(tmp_path: Path, what: str) -> None:
    checks = tokens(PROVIDER, tmp_path)
    with pytest.raises(TokenRefused):
        await checks.check(bad_tokens()[what])
    assert (await checks.check(PROVIDER.token())).id == "corp:ada"


async def test_callers_are_told_the_same_of_every_token_and_the_log_holds_none_of_it(
    house: HouseFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    wanted = ("expired", "unsigned", "other issuer", "public key as the secret", "unknown key")
    bad = bad_tokens()
    async with house(auth={"issuers": {"corp": settings(PROVIDER, tmp_path)}}) as h:
        told = set()
        for what in wanted:
            answer = await h.gateway.chat(headers=bearer(bad[what]))
            told.add((answer.status_code, answer.json()["error"]["message"]))
        assert len(told) == 1
    assert "a token of corp says too little: it has expired" in caplog.text
    assert "signed by no key of its issuer" in caplog.text
    assert not [what for what in wanted if bad[what].split(".")[1] in caplog.text]


@pytest.mark.parametrize(
    ("other", "claims", "expected"),
    [
        ({}, {}, ("acme", {"inference"}, None, "")),
        ({"tenant": None, "tenant_claim": "org.name"}, {"org": {"name": "beta"}}, ("beta", {"inference"}, None, "")),
        (
            {"tenant": None, "tenant_claim": "https://example.com/org"},
            {"https://example.com/org": "beta"},
            ("beta", {"inference"}, None, ""),
        ),
        (
            {"roles": [], "roles_claim": "realm.roles", "role_of": {"ops": "operator", "user": "inference"}},
            {"realm": {"roles": ["user", "ops", "operator"]}},
            ("acme", {"inference", "operator"}, None, ""),
        ),
        (
            {"roles": [], "roles_claim": "scope", "role_of": {"ask": "inference"}},
            {"scope": "openid ask"},
            ("acme", {"inference"}, None, ""),
        ),
        ({"roles": [], "roles_claim": "r", "role_of": {"a": "auditor"}}, {"r": []}, ("acme", set(), None, "")),
        (
            {"data_class": "internal", "class_claim": "c"},
            {"c": "restricted"},
            ("acme", {"inference"}, "restricted", ""),
        ),
        ({"data_class": "internal", "class_claim": "c"}, {"c": "public"}, ("acme", {"inference"}, "internal", "")),
        ({"residency_claim": "region"}, {"region": "eu"}, ("acme", {"inference"}, None, "eu")),
    ],
)
async def test_claims_say_what_settings_let_them(
    tmp_path: Path, other: dict[str, Any], claims: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    found = await tokens(PROVIDER, tmp_path, **other).check(PROVIDER.token(**claims))
    level = None if found.key_label.level is None else found.key_label.level.word
    assert (found.tenant.id, set(found.tenant.roles), level, found.tenant.residency) == expected


@pytest.mark.parametrize(
    ("other", "claims"),
    [
        ({"tenant": None, "tenant_claim": "tid"}, {}),
        ({"tenant": None, "tenant_claim": "tid"}, {"tid": 7}),
        ({"tenant": None, "tenant_claim": "tid"}, {"tid": ""}),
        ({"tenant": None, "tenant_claim": "tid", "tenants": ["acme"]}, {"tid": "beta"}),
        ({"roles_claim": "r", "role_of": {"a": "auditor"}}, {}),
        ({"roles_claim": "r", "role_of": {"a": "auditor"}}, {"r": {"a": 1}}),
        ({"class_claim": "c"}, {}),
        ({"class_claim": "c"}, {"c": "harmless"}),
        ({"residency_claim": "region"}, {"region": None}),
    ],
)
async def test_a_claim_that_is_missing_or_strange_shuts_its_token_out(
    tmp_path: Path, other: dict[str, Any], claims: dict[str, Any]
) -> None:
    with pytest.raises(TokenRefused):
        await tokens(PROVIDER, tmp_path, **other).check(PROVIDER.token(**claims))


async def test_a_token_ends_with_its_time_though_it_was_checked_before_and_clocks_may_differ_a_little(
    tmp_path: Path,
) -> None:
    clock = Clock()
    checks = tokens(PROVIDER, tmp_path, clock, leeway_s=30)
    token = PROVIDER.token()
    for ahead in (0, 600, 628, -600):
        clock.ahead = ahead
        await checks.check(token)
    clock.ahead = 632
    with pytest.raises(TokenRefused, match="expired"):
        await checks.check(token)
    clock.ahead = -40.0
    with pytest.raises(TokenRefused, match="ahead"):
        await checks.check(PROVIDER.token(sub="fresh"))


async def test_two_tokens_that_begin_alike_are_two_callers(tmp_path: Path) -> None:
    checks = tokens(PROVIDER, tmp_path)
    first, second = PROVIDER.token(sub="ada"), PROVIDER.token(sub="bob")
    assert first[:100] == second[:100]
    assert [(await checks.check(each)).id for each in (first, second, first)] == ["corp:ada", "corp:bob", "corp:ada"]


async def test_the_keys_of_one_issuer_open_nothing_of_anothers(tmp_path: Path) -> None:
    other = Provider(issuer="https://partner.example/")
    (tmp_path / "b").mkdir()
    both = {
        "corp": settings(PROVIDER, tmp_path),
        "partner": settings(other, tmp_path / "b", issuer=other.issuer, tenant="partner"),
    }
    checks = Tokens(Auth(issuers=both), wall=Clock(), clock=Clock())
    assert (await checks.check(other.token())).tenant.id == "partner"
    with pytest.raises(TokenRefused):
        await checks.check(other.token(iss=ISSUER))


async def test_several_kinds_of_keys_serve_each_its_own_algorithm(tmp_path: Path) -> None:
    provider = Provider(keys=[SigningKey("first"), RSA])
    checks = tokens(provider, tmp_path, algorithms=["ES256", "RS256"])
    for key in provider.keys:
        assert (await checks.check(provider.token(key=key))).id == "corp:ada"
        # Without an id the algorithm tells which one is meant.
        assert (await checks.check(provider.token(key=key, headers={"kid": None}))).id == "corp:ada"
    with pytest.raises(TokenRefused):
        await checks.check(provider.token(key=RSA, headers={"kid": "first"}))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"algorithms": ["HS256"]}, "algorithms"),
        ({"algorithms": ["none"]}, "algorithms"),
        ({"audiences": []}, "audiences"),
        ({"jwks_url": "http://login.example.com/keys", "jwks_file": None}, "must be https"),
        ({"jwks_url": "https://login.example.com/keys"}, "exactly one of `jwks_url`, `jwks_file` and `discover`"),
        ({"discover": True}, "exactly one of `jwks_url`, `jwks_file` and `discover`"),
        ({"discover": True, "jwks_file": None, "issuer": "http://login.example.com"}, "must be https"),
        ({"tenant_claim": "tid"}, "exactly one of `tenant` and `tenant_claim`"),
        ({"roles": []}, "nobody would have a role"),
        ({"role_of": {"a": "b"}}, "both of `roles_claim` and `role_of`"),
        ({"may": ["defer"]}, "may"),
    ],
)
def test_settings_that_would_let_anybody_in_are_refused(other: dict[str, Any], said: str) -> None:
    told = {"issuer": ISSUER, "audiences": [AUDIENCE], "tenant": "acme", "roles": ["inference"], "jwks_file": "keys"}
    with pytest.raises(ValidationError, match=said):
        IssuerSettings.model_validate({**told, **other})
