"""What is kept, in a gateway in a process of its own: killed at any moment, drained, and looked after by commands."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from typer.testing import CliRunner

from gateway.cli.outbox import app
from gateway.records.reader import read_records
from tests.support.running_gateway import free_port
from tests.support.scripted_runtime import DONE_EVENT, MODEL, Received, ScriptedRuntime, event, says
from tests.support.waiting import until

RESTRICTED = {"x-data-class": "restricted"}  # so that the edge alone may answer
Check = Callable[[], Awaitable[bool]]


@dataclass
class Site:
    """A state folder with its settings, in which gateways are started one after the other."""

    folder: Path
    port: int

    @property
    def settings(self) -> str:
        return str(self.folder / "tidegate.yaml")

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[tuple[asyncio.subprocess.Process, httpx.AsyncClient]]:
        command = (sys.executable, "-m", "gateway.cli", "serve", "--settings", self.settings)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
        process = await asyncio.create_subprocess_exec(*command, env=environment)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=30, trust_env=False) as client:
            try:
                await until(lambda: answers(process, client), within_s=60)
                yield process, client
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()

    def records(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in read_records(self.folder / "state" / "records") if record["kind"] == kind]

    async def command(self, *arguments: str) -> str:
        found = await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--settings", self.settings])
        assert found.exit_code == 0, found.output
        return str(found.output)


async def answers(process: asyncio.subprocess.Process, client: httpx.AsyncClient) -> bool:
    assert process.returncode is None, "the gateway ended"
    try:
        return (await client.get("/livez")).status_code == 200
    except httpx.TransportError:
        return False


def site(folder: Path, edge: ScriptedRuntime, **more: Any) -> Site:
    found = Site(folder, free_port())
    target = {"endpoints": [f"http://127.0.0.1:{edge.port}"], "protocol": "tidegate", "models": {MODEL: MODEL}}
    settings = {
        "state_dir": str(folder / "state"),
        "listen": {"port": found.port},
        "admin": {"port": free_port()},
        "targets": {"edge": target},
        "auth": {"local_may": ["defer", "finish"]},
        "outbox": {"flush_per_s": 20, "at_once": 1},
        **more,
    }
    (folder / "tidegate.yaml").write_text(yaml.safe_dump(settings))
    return found


async def defer(client: httpx.AsyncClient, text: str) -> str:
    body = {"model": "auto", "messages": [{"role": "user", "content": text}], "deferrable": True}
    found = await client.post("/v1/chat/completions", json=body, headers=RESTRICTED)
    assert found.status_code == 202, found.text
    return str(found.json()["id"])


async def statuses(client: httpx.AsyncClient, ids: list[str]) -> list[tuple[str, str | None]]:
    found = [(await client.get(f"/v1/requests/{each}")).json() for each in ids]
    return [(each["status"], each["reason"]) for each in found]


def all_over(client: httpx.AsyncClient, ids: list[str]) -> Check:
    async def check() -> bool:
        return {status for status, _ in await statuses(client, ids)} <= {"done", "failed"}

    return check


def asked_for(edge: ScriptedRuntime) -> list[str]:
    return [post.json["messages"][0]["content"] for post in edge.posts]


async def test_a_gateway_that_is_killed_at_any_moment_loses_nothing_and_sends_nothing_twice(tmp_path: Path) -> None:
    draw = random.Random(7)
    edge = ScriptedRuntime()

    async def takes_a_moment(request: Received) -> None:
        await asyncio.sleep(draw.uniform(0.0, 0.1))
        await says("done")(request)

    edge.answer = takes_a_moment
    async with edge:
        found = site(tmp_path, edge)
        await edge.stop()
        async with found.serving() as (process, client):
            ids = [await defer(client, f"request {n}") for n in range(12)]
            process.kill()
        await edge.start()
        for _ in range(3):
            sent = len(edge.posts)
            async with found.serving() as (process, client):
                await until(lambda sent=sent: len(edge.posts) > sent)
                await asyncio.sleep(draw.uniform(0.0, 0.15))
                process.kill()
        async with found.serving() as (_, client):
            await until(all_over(client, ids), within_s=40)
            became = await statuses(client, ids)
    assert set(became) <= {("done", None), ("failed", "unknown-outcome")}
    assert became.count(("failed", "unknown-outcome")) <= 3, "at most the one that each kill met"
    asked = asked_for(edge)
    assert len(asked) == len(set(asked)), "nothing was sent twice"
    assert {f"request {n}" for n in range(12) if became[n] == ("done", None)} <= set(asked)


async def test_one_that_was_being_sent_is_sent_again_where_the_settings_say_so(tmp_path: Path) -> None:
    async def hangs(request: Received) -> None:
        await asyncio.sleep(60)

    async with ScriptedRuntime(hangs) as edge:
        found = site(tmp_path, edge, outbox={"flush_per_s": 20, "unknown": "retry"})
        await edge.stop()
        async with found.serving() as (process, client):
            ids = [await defer(client, "again")]
            await edge.start()
            await until(lambda: bool(edge.posts))
            process.kill()
        edge.answer = says("second try")
        async with found.serving() as (_, client):
            await until(all_over(client, ids))
            assert "second try" in (await client.get(f"/v1/requests/{ids[0]}/answer")).text
        assert asked_for(edge) == ["again", "again"]


async def test_a_drain_finishes_what_goes_on_without_its_caller(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def in_two_steps(request: Received) -> None:
        await request.head()
        await request.chunk(event(content="begun"))
        await go_on.wait()
        await request.chunk(event(content="ended", finish_reason="stop"))
        await request.chunk(DONE_EVENT)
        await request.end()

    async with ScriptedRuntime(in_two_steps) as edge:
        found = site(tmp_path, edge)
        async with found.serving() as (process, client):
            body = {"model": "auto", "messages": [{"role": "user", "content": "x"}], "stream": True}
            headers = {**RESTRICTED, "x-on-disconnect": "finish"}
            async with client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response:
                async for _ in response.aiter_raw():
                    break
            process.send_signal(signal.SIGTERM)
            await until(lambda: is_draining(client))
            go_on.set()
            assert await process.wait() == 0
        [outcome] = found.records("outcome")
        assert outcome["outcome"] == "finished_detached"


async def is_draining(client: httpx.AsyncClient) -> bool:
    return (await client.get("/readyz")).status_code == 503


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
async def test_operators_look_after_the_outbox_and_see_nothing_of_what_it_holds(tmp_path: Path, as_json: bool) -> None:
    flag = ["--json"] if as_json else []
    async with ScriptedRuntime() as edge:
        found = site(tmp_path, edge)
        await edge.stop()
        async with found.serving() as (_, client):
            assert "secret" not in await found.command("list", *flag)
            ids = [await defer(client, "a secret") for _ in range(3)]
            listed = await found.command("list", *flag)
            assert "secret" not in listed
            shown = await found.command("show", ids[1], *flag)
            assert "secret" not in shown
            if as_json:
                assert [each["id"] for each in json.loads(listed)["requests"]] == ids
                assert json.loads(shown)["position"] == 2
                assert json.loads(shown)["waits_for"] == ["edge"]
            assert ids[0] in await found.command("drop", ids[0], "--json")
            await edge.start()
            await found.command("flush", *flag)
            await until(all_over(client, ids[1:]))
            assert len(edge.posts) == 2
            assert "done" in await found.command("show", ids[2], *flag)
            await edge.stop()
            last = await defer(client, "a secret")
            assert json.loads(await found.command("drop", "--waiting", "--json")) == {"dropped": [last]}
