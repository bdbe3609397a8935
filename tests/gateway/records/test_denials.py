"""Whoever is turned away before the way of a request is written down and counted, at both addresses."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from observability.span_reader import read_spans
from tests.gateway.conftest import House, HouseFactory
from tests.support.waiting import until

SECRET = "a-secret-that-nobody-may-read"
KEYS = [
    {"id": name, "secret_sha256": hashlib.sha256(b"secret").hexdigest(), "tenant": "acme", "roles": [role]}
    for name, role in (("phone", "inference"), ("looks", "auditor"))
]
PHONE = {"authorization": "Bearer phone.secret"}


def written(folder: Path) -> list[dict[str, Any]]:
    path = folder / "denials" / "denials.jsonl"
    return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def admin(h: House) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(h.gateway.app.admin), base_url="http://127.0.0.1")


async def counted(h: House) -> dict[tuple[str, ...], float]:
    return next(dict(numbers) for each, numbers in h.gateway.app.meters.numbers() if each.name == "tidegate.denials")


@pytest.mark.parametrize(
    ("path", "fields", "status", "error"),
    [
        ("/v1/requests/req-1", {}, 401, "authentication_failed"),
        ("/v1/requests/req-1", {"authorization": f"Bearer phone.{SECRET}"}, 401, "authentication_failed"),
        ("/v1/requests/req-1", {"authorization": "Bearer looks.secret"}, 403, "permission_denied"),
        ("/v1/nothing/of/ours", {}, 401, "authentication_failed"),
        ("/v1/requests/req-1", {**PHONE, "host": "elsewhere.example"}, 421, "misdirected_request"),
        ("/v1/requests/req-1", {**PHONE, "origin": "https://elsewhere.example"}, 403, "permission_denied"),
    ],
)
async def test_a_request_that_is_turned_away_leaves_a_record_without_its_secret(
    house: HouseFactory, tmp_path: Path, path: str, fields: dict[str, str], status: int, error: str
) -> None:
    async with house(auth={"keys": KEYS}) as h:
        response = await h.gateway.client.get(f"{path}?secret={SECRET}", headers=fields)
        assert response.status_code == status
        [record] = written(tmp_path)
        await until(lambda: any(read_spans(tmp_path / "traces", record["trace_id"])))
        assert await counted(h) == {("public", error): 1}
        assert not h.outcomes(), "it has no place among the requests"
    told = {name: record[name] for name in ("kind", "listener", "client", "method", "path", "error", "status")}
    assert told == {
        "kind": "denial",
        "listener": "public",
        "client": "127.0.0.1",
        "method": "GET",
        "path": path,
        "error": error,
        "status": status,
    }
    assert SECRET not in str(record)
    assert (tmp_path / "denials" / "denials.jsonl").stat().st_mode & 0o777 == 0o600


async def test_operators_who_are_turned_away_are_written_down_too(house: HouseFactory, tmp_path: Path) -> None:
    async with house(auth={"keys": KEYS}) as h, admin(h) as client:
        refused = [
            (await client.get("/metrics")).status_code,
            (await client.get("/metrics", headers=PHONE)).status_code,
            (await client.get("/metrics", headers={"host": "elsewhere.example"})).status_code,
        ]
        let_in = await client.get("/metrics", headers={"authorization": "Bearer looks.secret"})
        assert await counted(h) == {
            ("admin", "authentication_failed"): 1,
            ("admin", "permission_denied"): 1,
            ("admin", "misdirected_request"): 1,
        }
    assert (refused, let_in.status_code) == ([401, 403, 421], 200)
    assert [record["status"] for record in written(tmp_path)] == refused


async def test_whoever_is_let_in_is_not_written_down(house: HouseFactory, tmp_path: Path) -> None:
    async with house(auth={"keys": KEYS}) as h:
        assert (await h.gateway.client.get("/v1/models", headers=PHONE)).status_code == 200
        assert (await h.gateway.client.get("/livez")).status_code == 200
        assert (await h.gateway.chat()).status_code == 401
        [outcome] = await h.until_settled(1)
    assert outcome["outcome"] == "unauthenticated", "of requests for answers there is an outcome"
    assert not written(tmp_path)


async def test_a_disk_that_takes_none_turns_them_away_all_the_same(
    house: HouseFactory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with house(auth={"keys": KEYS}) as h:
        monkeypatch.setattr("gateway.records.denials.RotatingFile.append", full)
        for _ in range(3):
            assert (await h.gateway.client.get("/v1/models")).status_code == 401
    assert caplog.text.count("cannot be written down") == 1


async def test_strangers_fill_a_place_of_their_own_that_is_bounded(
    house: HouseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.records.denials._MAX_BYTES", 1000)
    async with house(auth={"keys": KEYS}) as h:
        for _ in range(20):
            await h.gateway.client.get("/v1/models")
    files = list((tmp_path / "denials").iterdir())
    assert len(files) == 2
    assert sum(path.stat().st_size for path in files) <= 2000
