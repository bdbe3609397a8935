"""What goes beside the caller's bytes: the tenant's salt, the budget that is left, and what to do when it runs out."""

from __future__ import annotations

import hashlib
from importlib import resources

import pytest

from routing_policies.policy.loader import load_text
from tests.gateway.conftest import HouseFactory

KEYS = [
    {"id": f"key{n}", "secret_sha256": hashlib.sha256(b"s").hexdigest(), "tenant": tenant}
    for n, tenant in enumerate(["blue", "green", "green"])
]
BALANCED = resources.files("routing_policies.builtin").joinpath("balanced.yaml").read_text(encoding="utf-8")


async def test_tenants_have_salts_of_their_own_that_last_as_long_as_the_installation(house: HouseFactory) -> None:
    async def salts() -> list[str]:
        async with house(auth={"keys": KEYS}) as h:
            for n in (0, 1, 2, 0):
                sent = await h.gateway.chat(headers={"authorization": f"Bearer key{n}.s"}, cache_salt="stolen")
                assert sent.status_code == 200
            return [post.json["cache_salt"] for post in h.edge.posts]

    blue, green, of_the_same_tenant, blue_again = await salts()
    assert green == of_the_same_tenant != blue == blue_again
    assert {blue, green}.isdisjoint({"blue", "green", "stolen"})
    assert await salts() == [blue, green, green, blue], "another start had other salts, and every cache was lost"


async def test_what_is_left_of_the_budget_reaches_the_runtime(house: HouseFactory) -> None:
    async with house() as h:
        await h.gateway.chat(headers={"x-latency-budget-ms": "9000"})
        await h.gateway.chat()
        with_budget, without = (post.headers for post in h.edge.posts)
        assert 0 < int(with_budget["x-latency-budget-ms"]) <= 9000
        assert "x-tidegate-late" not in with_budget
        assert "x-latency-budget-ms" not in without


async def test_a_policy_that_cuts_late_answers_short_tells_the_runtime(house: HouseFactory) -> None:
    assert "late: finish" in BALANCED
    loaded = load_text(BALANCED.replace("late: finish", "late: truncate"), "late.yaml")
    async with house(loaded=loaded) as h:
        await h.gateway.chat(headers={"x-latency-budget-ms": "9000"})
        await h.gateway.chat()
        with_budget, without = (post.headers for post in h.edge.posts)
        assert with_budget["x-tidegate-late"] == "truncate"
        assert "x-tidegate-late" not in without, "without a budget nothing is late"


@pytest.mark.parametrize(
    ("allowed", "data_class", "keep"),
    [
        (None, "public", None),
        ("internal", "public", "prefix"),
        ("internal", "internal", "prefix"),
        ("internal", "confidential", None),
        ("confidential", "restricted", None),
    ],
)
async def test_the_runtime_may_keep_prompts_up_to_the_class_that_the_settings_name(
    house: HouseFactory, allowed: str | None, data_class: str, keep: str | None
) -> None:
    async with house(keep_prefixes=allowed) as h:
        await h.gateway.chat(headers={"x-data-class": data_class, "x-tidegate-keep": "prefix"})
        [post] = h.edge.posts
        assert post.headers.get("x-tidegate-keep") == keep


@pytest.mark.parametrize("stream", [True, False])
async def test_an_openai_server_is_told_nothing_that_is_ours(house: HouseFactory, stream: bool) -> None:
    async with house(protocol="openai", keep_prefixes="restricted") as h:
        await h.gateway.chat(headers={"x-latency-budget-ms": "9000"}, stream=stream)
        post = (h.edge.posts + h.cloud.posts)[0]
        assert post.headers.keys().isdisjoint(
            {"x-latency-budget-ms", "x-tidegate-late", "x-tidegate-keep", "traceparent"}
        )
        assert "cache_salt" not in post.json
