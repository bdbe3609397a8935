"""`tidegate report`, over the records of a real gateway."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
from typer.testing import CliRunner, Result

from gateway.cli.report import report
from tests.gateway.conftest import HouseFactory
from tests.support.scripted_runtime import Received, ScriptedRuntime, says

EDGE_ONLY = {"x-data-class": "restricted"}
# As the policy `cost-first` declares them: dollars for a million tokens, and watts.
CLOUD_INPUT, CLOUD_OUTPUT, EDGE_WATTS, CLOUD_WATTS = 0.10, 0.40, 8, 1


def run(tmp_path: Path, *arguments: str) -> Result:
    settings = tmp_path / "tidegate.yaml"
    settings.write_text(f"state_dir: {tmp_path}\n", encoding="utf-8")
    app = typer.Typer()
    app.command()(report)
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, [*arguments, "--settings", str(settings)])


async def breaks(request: Received) -> None:
    await request.json_answer(500, {"error": {"message": "broken"}})


async def found(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    result = await asyncio.to_thread(run, tmp_path, *arguments, "--json")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = orjson.loads(result.stdout)
    return document


async def test_what_was_asked_is_what_is_reported(house: HouseFactory, tmp_path: Path) -> None:
    async with house(
        edge=ScriptedRuntime(says("fine indeed")), cloud=ScriptedRuntime(breaks), policy="cost-first"
    ) as h:
        for _ in range(2):
            await h.gateway.chat(headers=EDGE_ONLY)
        await h.gateway.client.post("/v1/chat/completions", json={})
        await h.gateway.client.post(
            "/v1/route/explain", json={"model": "auto", "messages": [{"role": "user", "content": "x"}]}
        )
        records = await h.until_settled(4)
    document = await found(tmp_path, "--by", "tenant,model,target")
    groups = {(each["tenant"], each["target"]): each for each in document["groups"]}
    assert set(groups) == {("local", "edge"), ("local", "-")}
    edge = groups["local", "edge"]
    assert (edge["requests"], edge["inside_budget"]) == (2, 2)
    assert edge["tokens"] == {"input": 14, "cached": 0, "output": 4}
    attempts = [attempt for record in records for attempt in record["attempts"]]
    assert edge["joules_estimated"] == sum(8 * each["duration_ms"] / 1000 for each in attempts)
    assert edge["money"] == {"USD": 0.0}
    assert edge["all_cloud"]["money"]["USD"] > 0
    assert edge["bytes"]["sent_elsewhere"] == 0
    assert 0 < edge["bytes"]["kept_here"] == edge["all_cloud"]["bytes_sent_elsewhere"]
    assert document["total"]["requests"] == 3, "an explanation is no answer"


async def test_the_tables_fit_a_terminal_and_say_what_is_estimated(house: HouseFactory, tmp_path: Path) -> None:
    async with house(policy="cost-first") as h:
        await h.gateway.chat(headers=EDGE_ONLY)
        await h.until_settled(1)
    result = await asyncio.to_thread(run, tmp_path, "--by", "model,target")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "estimate" in result.stdout


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert "--by" in run(tmp_path, "--by", "colour").output
    assert "--since" in run(tmp_path, "--since", "yesterday").output


async def test_what_another_version_recorded_is_counted_and_passed_over(house: HouseFactory, tmp_path: Path) -> None:
    async with house() as h:
        await h.gateway.chat(headers=EDGE_ONLY)
        [record] = await h.until_settled(1)
        older = {name: value for name, value in record.items() if name != "attempts"}
        with (tmp_path / "records" / "requests.jsonl").open("ab") as file:
            file.write(orjson.dumps(older) + b"\n")
    document = await found(tmp_path)
    assert (document["total"]["requests"], document["unreadable"]) == (1, 1)


def test_without_any_request_it_says_where_it_looked(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code != 0
    assert str(tmp_path / "records") in result.output.replace("\n", "")


def an_hour_ago(days: int = 0) -> str:
    return (datetime.now(UTC) - timedelta(days=days, hours=1)).isoformat(timespec="milliseconds")


def tried(target: str, bytes_out: int, duration_ms: float, *tokens: int) -> dict[str, Any]:
    counted = {"input": tokens[0], "cached": 0, "output": tokens[1]} if tokens else None
    return {"target": target, "bytes_out": bytes_out, "duration_ms": duration_ms, "tokens": counted}


# Who, what they are answered by and when, in how long of how much, what was attempted.
BY_HAND: list[tuple[str, str, str, float, float | None, list[dict[str, Any]]]] = [
    ("acme", "edge", an_hour_ago(), 2000, 3000, [tried("edge", 1000, 2000, 600, 400)]),
    ("acme", "edge", an_hour_ago(), 4000, 3000, [tried("edge", 500, 4000, 300, 200)]),
    ("acme", "cloud", an_hour_ago(), 1500, None, [tried("edge", 800, 500), tried("cloud", 900, 1000, 2000, 500)]),
    ("umbrella", "cloud", an_hour_ago(), 900, 1000, [tried("cloud", 700, 900, 100, 900)]),
    ("acme", "cloud", an_hour_ago(days=7), 900, 1000, [tried("cloud", 700, 900, 9, 9)]),
]


async def test_it_comes_to_what_a_pencil_comes_to(house: HouseFactory, tmp_path: Path) -> None:
    async with house(policy="cost-first") as h:
        await h.gateway.chat(headers=EDGE_ONLY)
        await h.until_settled(1)
    path = tmp_path / "records" / "requests.jsonl"
    decision, outcome = (orjson.loads(line) for line in path.read_bytes().splitlines())
    lines: list[dict[str, Any]] = []
    for number, (tenant, target, time, duration_ms, total_ms, attempts) in enumerate(BY_HAND):
        ids = {"request_id": f"req-{number}", "tenant": tenant, "time": time}
        size = {**decision["size"], "body_bytes": attempts[0]["bytes_out"]}
        lines.append({**decision, **ids, "size": size, "budget": {"total_ms": total_ms, "ttft_ms": None}})
        lines.append({**outcome, **ids, "target": target, "duration_ms": duration_ms, "attempts": attempts})
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in lines))
    document = await found(tmp_path, "--since", "7d", "--by", "tenant,target")

    groups = {(each["tenant"], each["target"]): each for each in document["groups"]}
    assert set(groups) == {("acme", "edge"), ("acme", "cloud"), ("umbrella", "cloud")}, "what is older is passed over"

    here = groups["acme", "edge"]
    assert (here["requests"], here["inside_budget"]) == (2, 1), "one came too late"
    joules = EDGE_WATTS * (2.0 + 4.0)
    assert here["joules_estimated"] == pytest.approx(joules)
    assert here["joules_per_million_tokens_estimated"] == pytest.approx(joules / 1500 * 1e6)
    assert here["joules_per_request_inside_budget_estimated"] == pytest.approx(joules)
    assert here["bytes"] == {"kept_here": 1500, "sent_elsewhere": 0}
    assert here["all_cloud"]["money"]["USD"] == pytest.approx((900 * CLOUD_INPUT + 600 * CLOUD_OUTPUT) / 1e6)

    there = groups["acme", "cloud"]
    money = (2000 * CLOUD_INPUT + 500 * CLOUD_OUTPUT) / 1e6
    assert there["money"]["USD"] == pytest.approx(money)
    assert there["money_per_million_tokens"]["USD"] == pytest.approx(money / 2500 * 1e6)
    assert there["money_per_request_inside_budget"]["USD"] == pytest.approx(money)
    assert there["joules_estimated"] == pytest.approx(EDGE_WATTS * 0.5 + CLOUD_WATTS * 1.0), (
        "the attempt that failed took its share"
    )
    assert there["bytes"] == {"kept_here": 0, "sent_elsewhere": 900}
    assert document["total"]["bytes"] == {"kept_here": 1500, "sent_elsewhere": 1600}
    assert document["total"]["all_cloud"]["bytes_sent_elsewhere"] == 1000 + 500 + 800 + 700
