"""Who is let in on the admin listener."""

from __future__ import annotations

import hashlib
from pathlib import Path

import httpx
import pytest

from gateway.access_settings import ApiKey, Auth
from gateway.admin.access import Access
from gateway.admin.app import AdminApp, Call, Route
from gateway.identity import Identity
from gateway.settings import AdminListen, Settings
from serving.web_guard import WebGuard


def key(name: str, *roles: str) -> ApiKey:
    return ApiKey(id=name, secret_sha256=hashlib.sha256(b"s").hexdigest(), tenant="t", roles=roles)


KEYS = Auth(keys=(key("oper", "operator"), key("audit", "auditor"), key("apps", "inference")))


async def hello(call: Call) -> dict[str, str]:
    return {"who": call.who, **call.body}


async def breaks(call: Call) -> None:
    raise RuntimeError("a secret")


ROUTES = [Route("GET", "/look", hello), Route("POST", "/change", hello), Route("GET", "/breaks", breaks)]


def client(auth: Auth = KEYS, url: str = "http://127.0.0.1:8081") -> httpx.AsyncClient:
    app = WebGuard(AdminApp(Access(Identity(auth)), ROUTES, lambda *_: None), AdminListen().pages())
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url=url)


@pytest.mark.parametrize(
    ("caller", "look", "change"), [("oper", 200, 200), ("audit", 200, 403), ("apps", 403, 403), ("none", 401, 401)]
)
async def test_an_operator_may_change_an_auditor_may_look_and_nobody_else_may(
    caller: str, look: int, change: int
) -> None:
    async with client() as admin:
        headers = {"authorization": f"Bearer {caller}.s"}
        assert (await admin.get("/look", headers=headers)).status_code == look
        assert (await admin.post("/change", headers=headers, json={})).status_code == change
        assert (await admin.get("/no-such-path", headers=headers)).status_code in {404, look}


async def test_nobody_learns_what_there_is_without_being_let_in() -> None:
    async with client() as admin:
        assert {(await admin.get(path)).status_code for path in ("/look", "/none")} == {401}


async def test_without_keys_programs_of_this_machine_are_let_in_and_web_pages_are_not() -> None:
    async with client(Auth()) as admin:
        assert (await admin.get("/look")).json() == {"who": "local"}
        assert (await admin.post("/change", headers={"origin": "http://127.0.0.1:8081"})).status_code == 403
        assert (await admin.get("/look", headers={"host": "rebound.example"})).status_code == 421
        assert (await admin.get("/look", headers={"host": "[::1]:8081"})).status_code == 200


async def test_faults_are_answered_in_the_shape_of_every_error() -> None:
    async with client(Auth()) as admin:
        assert (await admin.get("/none")).json()["error"]["code"] == "not_found"
        assert (await admin.get("/change")).status_code == 405
        assert (await admin.post("/change", content=b"[1]")).json()["error"]["code"] == "malformed_body"
        broken = await admin.get("/breaks")
        assert (broken.status_code, "secret" in broken.text) == (500, False)


def test_a_listener_that_others_reach_needs_keys(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"admin\.host '0\.0\.0\.0' can be reached"):
        Settings(state_dir=tmp_path, admin={"host": "0.0.0.0"})


@pytest.mark.parametrize("fault", ["two different people", "twice", "32 bytes"])
def test_who_may_sign_is_checked_in_the_settings(tmp_path: Path, fault: str) -> None:
    ada = {"person": "ada", "public_key": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="}
    rollout = {
        "two different people": {"four_eyes": True, "approvers": [ada, {**ada, "public_key": "A" * 43 + "="}]},
        "twice": {"approvers": [ada, {**ada, "person": "ben"}]},
        "32 bytes": {"approvers": [{**ada, "public_key": "AAAA"}]},
    }[fault]
    with pytest.raises(ValueError, match=fault):
        Settings(state_dir=tmp_path, rollout=rollout)
