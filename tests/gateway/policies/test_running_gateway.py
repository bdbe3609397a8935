"""Policies of a gateway in a process of its own, changed by file, by signal and by command under its streams."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml
from typer.testing import CliRunner

from gateway.cli.policy import app
from gateway.records.reader import read_records
from tests.support.running_gateway import free_port
from tests.support.scripted_runtime import DONE_EVENT, MODEL, Received, ScriptedRuntime, event, state
from tests.support.waiting import until

STREAMS = 50


def policy(answers: str, note: str = "") -> str:
    """A policy under which only one target may answer."""
    other = "cloud" if answers == "edge" else "edge"
    return (
        f"---\n# {note}\napiVersion: tidegate/v1\nname: only-{answers}\ndefaults: {{class: public}}\ntargets:\n"
        "  edge: {kind: edge, clearance: restricted}\n  cloud: {kind: cloud, clearance: internal}\n"
        f"constraints:\n  - {{id: not-{other}, deny: [{other}]}}\n...\n"
    )


@dataclass
class Process:
    """`tidegate serve` in front of two scripted runtimes."""

    process: asyncio.subprocess.Process
    folder: Path
    client: httpx.AsyncClient

    def put(self, text: str) -> None:
        """Put a policy file in place, as an editor does."""
        aside = self.folder / "aside.yaml"
        aside.write_text(text)
        aside.replace(self.folder / "policy.yaml")

    async def in_force(self) -> str:
        return str((await self.client.get("/readyz")).json()["policy"]["name"])

    async def until_in_force(self, name: str) -> None:
        async def is_so() -> bool:
            return await self.in_force() == name

        await until(is_so)

    async def chat(self) -> httpx.Response:
        body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
        return await self.client.post("/v1/chat/completions", json=body)

    def live(self, *arguments: str, status: int = 0) -> Any:
        return tidegate(*arguments, "--settings", str(self.folder / "tidegate.yaml"), status=status)


async def tidegate(*arguments: str, status: int = 0) -> str:
    """Run `tidegate policy …`, as the command line does."""
    found = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert found.exit_code == status, found.output
    return str(found.output)


@asynccontextmanager
async def serving(folder: Path, edge: ScriptedRuntime, cloud: ScriptedRuntime, **more: Any) -> AsyncIterator[Process]:
    port, admin = free_port(), free_port()
    targets = {
        name: {"endpoints": [f"http://127.0.0.1:{runtime.port}"], "protocol": "tidegate", "models": {MODEL: MODEL}}
        for name, runtime in (("edge", edge), ("cloud", cloud))
    }
    settings = {
        "state_dir": str(folder / "state"),
        "listen": {"port": port},
        "admin": {"port": admin},
        "policy": str(folder / "policy.yaml"),
        "targets": targets,
        **more,
    }
    (folder / "tidegate.yaml").write_text(yaml.safe_dump(settings))
    with (folder / "log").open("ab") as log:
        command = [sys.executable, "-m", "gateway.cli", "serve", "--settings", str(folder / "tidegate.yaml")]
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
    limits = httpx.Limits(max_connections=2 * STREAMS)
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False, limits=limits
        ) as client:
            found = Process(process, folder, client)

            async def is_ready() -> bool:
                assert process.returncode is None, (folder / "log").read_text()
                try:
                    return (await client.get("/readyz")).status_code == 200
                except httpx.TransportError:
                    return False

            await until(is_ready, within_s=60)
            yield found
    finally:
        process.terminate()
        async with asyncio.timeout(30):
            await process.wait()


async def test_open_streams_survive_every_kind_of_reload_and_no_request_meets_two_policies(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def held(request: Received) -> None:
        """One word, and the rest when the test says so."""
        if not request.json.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
            await request.json_answer(
                200, {"id": "c", "object": "chat.completion", "model": MODEL, "choices": [choice]}
            )
            return
        await request.head()
        await request.chunk(event(content="first"))
        await go_on.wait()
        await request.chunk(event(content="last"))
        await request.chunk(event(finish_reason="stop"))
        await request.chunk(DONE_EVENT)
        await request.end()

    report = state(window=8192)
    (tmp_path / "policy.yaml").write_text(policy("edge"))
    async with (
        ScriptedRuntime(held, report=report) as edge,
        ScriptedRuntime(held, report=report) as cloud,
        serving(tmp_path, edge, cloud) as gateway,
    ):
        begun = asyncio.Semaphore(0)

        async def stream() -> str:
            body = {"model": "auto", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
            text = ""
            async with gateway.client.stream("POST", "/v1/chat/completions", json=body) as answer:
                assert answer.headers["x-tidegate-target"] == "edge"
                async for line in answer.aiter_lines():
                    text += line
                    if "first" in line:
                        begun.release()
            return text

        streams = [asyncio.create_task(stream()) for _ in range(STREAMS)]
        for _ in range(STREAMS):
            await asyncio.wait_for(begun.acquire(), 30)

        met: set[tuple[str, str]] = set()
        stop = asyncio.Event()

        async def ask() -> None:
            while not stop.is_set():
                answer = await gateway.chat()
                assert answer.status_code == 200, answer.text
                name = answer.headers["x-tidegate-policy"].partition("@")[0]
                met.add((name, answer.headers["x-tidegate-target"]))

        asking = [asyncio.create_task(ask()) for _ in range(4)]
        gateway.put(policy("cloud"))
        await gateway.until_in_force("only-cloud")
        for index in range(10):
            gateway.put(policy("edge" if index % 2 else "cloud", note=str(index)))
            gateway.process.send_signal(signal.SIGHUP)
            await asyncio.sleep(0.02)
        await gateway.until_in_force("only-edge")
        gateway.put("name: [")
        await gateway.live("reload", status=1)
        assert "refused" in await gateway.live("status", status=1)
        assert await gateway.in_force() == "only-edge"
        gateway.put(policy("cloud"))
        assert "is in force" in await gateway.live("reload", "--why", "the last one")
        stop.set()
        await asyncio.gather(*asking)
        go_on.set()
        texts = await asyncio.wait_for(asyncio.gather(*streams), 60)

    assert all("first" in text and "last" in text and text.endswith("[DONE]") for text in texts)
    assert met == {("only-edge", "edge"), ("only-cloud", "cloud")}
    outcomes = [r for r in read_records(tmp_path / "state" / "records") if r["kind"] == "outcome"]
    assert {(r["policy"]["name"], r["target"]) for r in outcomes} == met
    assert [r["outcome"] for r in outcomes] == ["ok"] * len(outcomes)
    assert "policy.yaml:1:" in (tmp_path / "log").read_text()


async def test_a_policy_is_rolled_out_by_commands_alone(tmp_path: Path) -> None:
    edge, cloud = ScriptedRuntime(report=state(window=8192)), ScriptedRuntime(report=state(window=8192))
    (tmp_path / "policy.yaml").write_text(policy("edge"))
    (tmp_path / "next.yaml").write_text(policy("cloud"))
    people = {name: (await tidegate("keygen", str(tmp_path / f"{name}.key"))).strip() for name in ("ada", "ben")}
    bundle = str(tmp_path / "policy.yaml")
    async with edge, cloud:
        async with serving(tmp_path, edge, cloud) as gateway:
            await gateway.chat()
            assert "only-edge" in await gateway.live("status")
            await gateway.live("shadow", "start", str(tmp_path / "next.yaml"))
            await gateway.chat()
            found = json.loads(await gateway.live("shadow", "report", "--json", status=1))
            assert (found[0]["moved"], found[0]["looser"]) == (
                [{"from": "edge", "to": "cloud", "requests": 1}],
                {"cloud": 1},
            )
            assert "1 would be asked of cloud first instead of edge" in await gateway.live("shadow", "report", status=1)
            assert "ended" in await gateway.live("shadow", "stop")
            started = await gateway.live("canary", "start", str(tmp_path / "next.yaml"), "--percent", "100")
            assert "looser: cloud may answer" in started
            assert (await gateway.chat()).headers["x-tidegate-target"] == "cloud"
            assert "canary" in await gateway.live("canary", "report")
            await gateway.live("canary", "promote", "--why", "it went well")
            listed = json.loads(await gateway.live("versions", "--json"))
            assert (listed["in_force"], listed["history"][-1]["why"]) == (2, "it went well")
            await gateway.live("rollback")
            assert await gateway.in_force() == "only-edge"
            await gateway.live("activate", "2")
            assert await gateway.in_force() == "only-cloud"
            await gateway.live("activate", "1")
        rollout = {
            "four_eyes": True,
            "approvers": [{"person": name, "public_key": key} for name, key in people.items()],
        }
        async with serving(tmp_path, edge, cloud, rollout=rollout) as gateway:
            gateway.put(policy("cloud", note="from the file"))
            assert "waits for signatures" in await gateway.live("reload", status=1)
            await gateway.live("approve", "--yes", "--key", str(tmp_path / "ada.key"), status=1)
            assert await gateway.in_force() == "only-edge"
            await gateway.live("approve", "--yes", "--key", str(tmp_path / "ben.key"))
            assert await gateway.in_force() == "only-cloud"
            # Written in the place of the file, and taken from there by the watch or the command, whichever is first.
            await tidegate("bundle", str(tmp_path / "next.yaml"), "--version", "1", "-o", bundle)
            await tidegate("sign", bundle, "--key", str(tmp_path / "ada.key"))
            assert "is in force" in await gateway.live("reload")
