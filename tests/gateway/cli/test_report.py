"""`tidegate report`, over the records of a real gateway."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import typer
from typer.testing import CliRunner, Result

from gateway.cli.report import report
from tests.gateway.conftest import HouseFactory
from tests.support.scripted_runtime import Received, ScriptedRuntime, says

EDGE_ONLY = {"x-data-class": "restricted"}


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
