from __future__ import annotations

import asyncio
import json
import signal
import stat
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.runtime_server.scripted_engine import MODEL
from tests.support.waiting import until

BODY = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "stream": True}


async def spawn(model_dir: Path, *arguments: str) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.runtime_server.slow_runtime"),
        *("--model-dir", str(model_dir), "--model-name", MODEL, *arguments),
        stderr=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )


async def outcome(process: Process) -> tuple[int | None, str]:
    async with asyncio.timeout(20):
        _, stderr = await process.communicate()
    return process.returncode, stderr.decode()


@dataclass
class Served:
    process: Process
    client: httpx.AsyncClient
    socket: Path

    async def is_ready(self) -> bool:
        try:
            return (await self.client.get("/readyz")).status_code == 200
        except httpx.ConnectError:
            return False

    async def is_draining(self) -> bool:
        state = (await self.client.get("/internal/state")).json()
        return bool(state["status"] == "draining")


@asynccontextmanager
async def served(model_dir: Path, folder: Path, *arguments: str) -> AsyncIterator[Served]:
    path = folder / "run" / "r.sock"
    process = await spawn(model_dir, "--socket", str(path), *arguments)
    try:
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        async with httpx.AsyncClient(transport=transport, base_url="http://runtime") as client:
            runtime = Served(process, client, path)
            await until(runtime.is_ready)
            yield runtime
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_on_sigterm_running_answers_finish_new_ones_are_refused_and_the_socket_goes(
    model_dir: Path, tmp_path: Path
) -> None:
    async with served(model_dir, tmp_path, "--trace-dir", str(tmp_path / "traces")) as runtime:
        assert stat.S_IMODE(runtime.socket.stat().st_mode) == 0o600
        async with runtime.client.stream("POST", "/v1/chat/completions", json={**BODY, "max_tokens": 100}) as response:
            parts = response.aiter_bytes()
            await anext(parts)
            runtime.process.send_signal(signal.SIGTERM)
            await until(runtime.is_draining)
            assert (await runtime.client.get("/readyz")).status_code == 503
            refused = await runtime.client.post("/v1/chat/completions", json=BODY)
            rest = b"".join([part async for part in parts])
        status, stderr = await outcome(runtime.process)
    assert refused.json()["error"]["code"] == "draining"
    assert b'"finish_reason":"stop"' in rest
    assert rest.endswith(b"data: [DONE]\n\n")
    assert (status, "Traceback" in stderr) == (0, False)
    assert not runtime.socket.exists()
    assert "POST /v1/chat/completions" in (tmp_path / "traces" / "slow-runtime.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("timeout_s", ["0.2", "60"])
async def test_an_answer_that_outlasts_the_drain_or_a_second_signal_is_ended_with_an_error(
    model_dir: Path, tmp_path: Path, timeout_s: str
) -> None:
    async with served(model_dir, tmp_path, "--drain-timeout-s", timeout_s) as runtime:
        body = {**BODY, "max_tokens": 10_000}  # clamped to the window: some seconds at this pace
        async with runtime.client.stream("POST", "/v1/chat/completions", json=body) as response:
            parts = response.aiter_bytes()
            await anext(parts)
            runtime.process.send_signal(signal.SIGINT)
            if timeout_s == "60":
                await until(runtime.is_draining)
                runtime.process.send_signal(signal.SIGINT)
            rest = b"".join([part async for part in parts])
        status, _ = await outcome(runtime.process)
    assert json.loads(rest.strip().split(b"data: ")[-1])["error"]["code"] == "draining"
    assert b"[DONE]" not in rest
    assert status == 0


async def test_an_engine_that_cannot_start_ends_the_process_with_its_reason(model_dir: Path, tmp_path: Path) -> None:
    process = await spawn(model_dir, "--socket", str(tmp_path / "r.sock"), "--fail", "model.onnx is missing")
    status, stderr = await outcome(process)
    assert status == 1
    assert "model.onnx is missing" in stderr


async def test_a_socket_that_another_runtime_serves_is_refused(model_dir: Path, tmp_path: Path) -> None:
    async with served(model_dir, tmp_path) as runtime:
        status, stderr = await outcome(await spawn(model_dir, "--socket", str(runtime.socket)))
        assert await runtime.is_ready()
    assert status == 2
    assert "another process" in stderr


async def test_a_killed_runtimes_socket_does_not_stop_the_next(model_dir: Path, tmp_path: Path) -> None:
    async with served(model_dir, tmp_path) as first:
        first.process.kill()
        await first.process.wait()
    assert first.socket.exists()
    async with served(model_dir, tmp_path):
        pass


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--port", "0", "--host", "0.0.0.0"], "must authenticate"),
        (["--port", "0", "--token-file", "nowhere"], "token file"),
        (["--port", "0", "--model-dir", "nowhere"], "tokenizer.json"),
        ([], "--socket --port"),
        (["--port", "0", "--waiting-limit", "-1"], "at least 0"),
    ],
)
async def test_what_cannot_be_served_is_refused_at_the_start_in_one_line(
    model_dir: Path, arguments: list[str], reason: str
) -> None:
    status, stderr = await outcome(await spawn(model_dir, *arguments))
    assert status == 2
    assert reason in stderr
    assert "Traceback" not in stderr


async def test_a_token_file_guards_a_port_that_others_reach(model_dir: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("sixteen-characters\n", encoding="ascii")
    process = await spawn(model_dir, "--port", "0", "--host", "0.0.0.0", "--token-file", str(token))
    try:
        assert process.stderr is not None
        async with asyncio.timeout(20):
            line = ""
            while "Serving" not in line:
                line = (await process.stderr.readline()).decode()
        url = line.split()[-1].replace("0.0.0.0", "127.0.0.1")
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/internal/state")).status_code == 401
            headers = {"authorization": "Bearer sixteen-characters"}
            assert (await client.get("/internal/state", headers=headers)).status_code == 200
    finally:
        process.terminate()
        await outcome(process)
