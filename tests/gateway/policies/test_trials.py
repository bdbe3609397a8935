"""Canary and shadow on requests that really pass through a gateway: who decides, what is recorded, what is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from gateway.policies.document import Document
from gateway.policies.holder import StickyBy
from gateway.policies.offers import By
from gateway.policies.trial_report import fared, shadowed
from gateway.records.reader import read_records
from tests.gateway.conftest import House, HouseFactory

ME = By("ada")
HEADERS = {"x-data-class": "internal"}


def policy(clearance: str, name: str = "site") -> str:
    return (
        f"apiVersion: tidegate/v1\nname: {name}\ndefaults: {{class: public}}\ntargets:\n"
        "  edge: {kind: edge, clearance: restricted, quality: 0.1}\n"
        f"  cloud: {{kind: cloud, clearance: {clearance}, quality: 1.0}}\nweights: {{quality: 1}}\n"
    )


def document(clearance: str, name: str) -> Document:
    return Document.of(name, policy(clearance, name).encode())


@asynccontextmanager
async def site(house: HouseFactory, tmp_path: Path, **settings: Any) -> AsyncIterator[House]:
    file = tmp_path / "policy.yaml"
    file.write_text(policy("public"))
    async with house(policy=str(file), **settings) as h:
        yield h


async def test_a_canary_by_conversation_stays_with_a_conversation_and_takes_its_share(
    house: HouseFactory, tmp_path: Path
) -> None:
    async with site(house, tmp_path) as h:
        candidate = document("internal", "candidate")
        await h.gateway.app.rollout.start_canary(candidate, 50, StickyBy.CONVERSATION, ME)
        met: dict[str, set[str]] = {}
        for text in [f"question {index}" for index in range(16)]:
            first = await h.gateway.chat(text, headers=HEADERS)
            turns = [
                {"role": "user", "content": text},
                {"role": "assistant", "content": "well"},
                {"role": "user", "content": [{"type": "text", "text": "and now?"}]},
            ]
            second = await h.gateway.chat(messages=turns, headers=HEADERS)
            met[text] = {first.headers["x-tidegate-policy"], second.headers["x-tidegate-policy"]}
            # The version that decided says who may answer: the canary's cloud, or else the edge.
            canary = "; version=2; canary" in first.headers["x-tidegate-policy"]
            assert first.headers["x-tidegate-target"] == ("cloud" if canary else "edge")
        records = await h.until_settled(32)

    assert all(len(policies) == 1 for policies in met.values())
    assert len(set.union(*met.values())) == 2, "each policy decided for some"
    arms = {one.arm: one for one in fared(records)}
    assert {arm: set(one.targets) for arm, one in arms.items()} == {"stable": {"edge"}, "canary": {"cloud"}}
    assert sum(one.requests for one in arms.values()) == 32
    decisions = [r for r in read_records(tmp_path / "records") if r["kind"] == "decision"]
    assert all((r["seed"] % 10_000 < 5_000) == (r["policy"]["arm"] == "canary") for r in decisions)


async def test_a_shadow_is_never_acted_on_and_its_verdict_stands_in_the_record(
    house: HouseFactory, tmp_path: Path
) -> None:
    async with site(house, tmp_path) as h:
        await h.gateway.app.rollout.start_shadow(document("internal", "candidate"), 100, ME)
        answer = await h.gateway.chat("a secret plan", headers=HEADERS)
        (record,) = await h.until_settled(1)

    assert answer.headers["x-tidegate-target"] == "edge"
    assert record["shadow"] == {
        "name": "candidate",
        "version": 2,
        "digest": record["shadow"]["digest"],
        "class": "internal",
        "from": "edge",
        "to": "cloud",
        "eligible": ["cloud", "edge"],
        "looser": ["cloud"],
        "stricter": [],
        "reason": "highest-score",
        "inexact": False,
    }
    (found,) = shadowed([record])
    assert (found.asked, found.requests, dict(found.moved)) == (1, 1, {("edge", "cloud"): 1})
    assert "secret plan" not in str(record)


async def test_a_shadow_labels_by_its_own_classes_and_rests_after_it_was_asked(
    house: HouseFactory, tmp_path: Path
) -> None:
    async with site(house, tmp_path) as h:
        text = policy("internal", "candidate").replace("class: public", "class: restricted")
        await h.gateway.app.rollout.start_shadow(Document.of("c", text.encode()), 100, ME)
        await h.gateway.chat("hello")
        (record,) = await h.until_settled(1)
        assert (record["shadow"]["class"], record["shadow"]["stricter"]) == ("restricted", ["cloud"])
        await h.gateway.app.rollout.end_shadow(ME)
        await h.gateway.chat("hello")
        assert (await h.until_settled(2))[1]["shadow"] is None


async def test_operators_see_and_change_policies_over_the_admin_application(
    house: HouseFactory, tmp_path: Path
) -> None:
    async with site(house, tmp_path) as h:
        transport = httpx.ASGITransport(h.gateway.app.admin)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as admin:
            status = (await admin.get("/status")).json()
            assert {name: one["health"] for name, one in status["targets"].items()} == {"edge": "up", "cloud": "up"}
            assert status["policy"]["in_force"]["version"] == 1

            (tmp_path / "policy.yaml").write_text(policy("internal"))
            change = (await admin.post("/policy/reload", json={"why": "a wider cloud"})).json()
            assert (change["became"], change["version"]) == ("in_force", 2)
            assert change["looser"][0]["class"] == "internal"
            assert (await admin.get("/policy")).json()["last_change"]["looser"] == change["looser"]

            (tmp_path / "policy.yaml").write_text(policy("internal").replace("weights", "weigths"))
            refused = await admin.post("/policy/reload")
            assert refused.status_code == 400
            assert refused.json()["error"]["details"]["line"] == 7
            assert "did you mean `weights`" in refused.json()["error"]["message"]
            ready = (await h.gateway.client.get("/readyz")).json()
            assert ready["status"] == "ready"
            assert ready["policy"]["stale"] == {"line": 7, "column": 1}

            assert (await admin.post("/policy/rollback", json={"why": "enough"})).json()["version"] == 1
            versions = (await admin.get("/policy/versions")).json()
            assert versions["in_force"] == 1
            assert [(e["number"], e["who"], e["why"]) for e in versions["history"][1:]] == [
                (2, "local", "a wider cloud"),
                (1, "local", "enough"),
            ]
            sent = {"document": policy("restricted", "c"), "percent": 10, "by": "tenant"}
            assert (await admin.post("/policy/canary", json=sent)).json()["became"] == "canary"
            assert (await admin.post("/policy/canary", json={**sent, "percent": 0})).status_code == 400
            assert (await admin.post("/policy/shadow", json={"document": "name: ["})).status_code == 400
            assert (await admin.post("/policy/canary/end")).json() == {"became": "ended"}
            assert (await admin.post("/policy/canary/end")).status_code == 400
            for number in (99, True, "1", 1.0, None):
                assert (await admin.post("/policy/activate", json={"number": number})).status_code == 400
            assert (await admin.get("/policy")).json()["in_force"]["version"] == 1
            assert (
                await admin.post("/policy/approve", json={"kind": "k", "payload": "!", "signatures": []})
            ).status_code == 400
