"""API keys: who may call, as whom, and what a key says of everything that is sent with it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.gateway.conftest import HouseFactory

SECRET = "correct-horse-battery"


def key(key_id: str, secret: str = SECRET, **fields: Any) -> dict[str, Any]:
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return {"id": key_id, "secret_sha256": digest, "tenant": f"tenant-{key_id}", **fields}


def bearer(key_id: str, secret: str = SECRET) -> dict[str, str]:
    return {"authorization": f"Bearer {key_id}.{secret}"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer"},
        {"authorization": f"Basic app1.{SECRET}"},
        {"authorization": f"Bearer {SECRET}"},
        {"authorization": "Bearer app1"},
        bearer("app1", "wrong-horse-battery"),
        bearer("app2"),
        bearer("app1", hashlib.sha256(SECRET.encode()).hexdigest()),
    ],
    ids=[
        "nothing",
        "no token",
        "other scheme",
        "no id",
        "no secret",
        "wrong secret",
        "unknown id",
        "the stored digest",
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/route/explain"])
async def test_a_caller_without_a_key_that_holds_is_a_401_and_nothing_is_sent(
    house: HouseFactory, path: str, headers: dict[str, str]
) -> None:
    async with house(auth={"keys": [key("app1")]}) as h:
        body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
        response = await h.gateway.client.post(path, json=body, headers=headers)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.json()["error"]["code"] == "authentication_failed"
        assert SECRET not in response.text
        assert not h.edge.posts + h.cloud.posts
        assert [outcome["outcome"] for outcome in await h.until_settled(1)] == ["unauthenticated"]


async def test_an_unknown_id_is_told_nothing_that_a_wrong_secret_is_not(house: HouseFactory) -> None:
    async with house(auth={"keys": [key("app1")]}) as h:
        wrong = (await h.gateway.chat(headers=bearer("app1", "x"))).json()["error"]
        unknown = (await h.gateway.chat(headers=bearer("app2", "x"))).json()["error"]
        assert {**wrong, "request_id": ""} == {**unknown, "request_id": ""}


async def test_a_key_that_holds_is_let_in_as_its_tenant(house: HouseFactory) -> None:
    async with house(auth={"keys": [key("app1"), key("app2", "another-secret")]}) as h:
        assert (await h.gateway.chat(headers=bearer("app1"))).status_code == 200
        assert (await h.gateway.chat(headers={"authorization": "bearer app2.another-secret"})).status_code == 200
        assert [outcome["tenant"] for outcome in await h.until_settled(2)] == ["tenant-app1", "tenant-app2"]


async def test_what_a_key_is_labelled_holds_for_all_that_is_sent_with_it(house: HouseFactory) -> None:
    keys = [key("open"), key("ward", data_class="restricted", data_tags=["phi"])]
    long = "word " * 800  # preferred in the cloud
    async with house(auth={"keys": keys}) as h:
        assert (await h.gateway.chat(long, headers=bearer("open"))).headers["x-tidegate-target"] == "cloud"
        labelled = await h.gateway.chat(long, headers={**bearer("ward"), "x-data-class": "public"})
        assert labelled.headers["x-tidegate-target"] == "edge"
        assert labelled.headers["x-tidegate-label"].startswith("restricted")


async def test_without_keys_a_loopback_caller_is_local_whatever_it_sends(house: HouseFactory) -> None:
    async with house() as h:
        assert (await h.gateway.chat(headers={"authorization": "Bearer anything"})).status_code == 200
        assert [outcome["tenant"] for outcome in await h.until_settled(1)] == ["local"]
