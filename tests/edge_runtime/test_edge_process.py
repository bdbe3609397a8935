"""`python -m edge_runtime` as a process, over its socket."""

import asyncio
import json
import signal
import sys
from contextlib import asynccontextmanager

import httpx
import pytest

pytestmark = pytest.mark.models

QUESTION = "What is the capital of France?"


@asynccontextmanager
async def serving(model_dir, socket, *options: str, name: str = "smollm2", limit_s: float = 60):
    command = ["-m", "edge_runtime", "--model-dir", model_dir, "--model-name", name, "--socket", socket, *options]
    process = await asyncio.create_subprocess_exec(sys.executable, *map(str, command), stderr=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(limit_s):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def client(socket):
    transport = httpx.AsyncHTTPTransport(uds=str(socket), retries=0)
    async with httpx.AsyncClient(transport=transport, base_url="http://edge", timeout=30) as found:
        yield found


async def ready(edge: httpx.AsyncClient) -> dict:
    while True:
        try:
            state = (await edge.get("/internal/state")).json()
        except httpx.ConnectError:
            state = {}
        if state.get("status") == "ready":
            return state
        await asyncio.sleep(0.05)


async def test_it_answers_over_its_socket_tells_its_state_and_ends_on_a_signal(edge_model, tmp_path):
    socket = tmp_path / "edge.sock"
    async with (
        serving(edge_model, socket, "--slots", "2", "--context", "512", "--threads", "1") as process,
        client(socket) as edge,
    ):
        state = await ready(edge)
        assert (state["slots"], state["models"][0]["window"], state["models"][0]["id"]) == (2, 512, "smollm2")
        body = {
            "model": "smollm2",
            "messages": [{"role": "user", "content": QUESTION}],
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        answer = await edge.post("/v1/chat/completions", json=body)
        chunks = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"])
        assert "Paris" in text
        assert chunks[-1]["timings"]["prefill_ms"] > 0
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


async def test_a_prompt_that_may_be_kept_is_not_read_again_after_a_restart_and_the_steps_tell(edge_model, tmp_path):
    socket, options = (
        tmp_path / "edge.sock",
        ["--slots", "1", "--context", "512", "--prefix-dir", tmp_path / "prefixes"],
    )

    def asked(text):
        messages = [{"role": "user", "content": f"{text} {QUESTION}"}]
        return {"model": "smollm2", "temperature": 0, "max_tokens": 8, "messages": messages}

    kept, secret = asked("Think of all the countries. " * 20), asked("Think of a secret of mine. " * 20)
    answers = []
    for _ in range(2):
        async with serving(edge_model, socket, *options) as process, client(socket) as edge:
            await ready(edge)
            headers = {"x-tidegate-keep": "prefix"}
            answers.append((await edge.post("/v1/chat/completions", json=kept, headers=headers)).json())
            answers.append((await edge.post("/v1/chat/completions", json=secret)).json())
            steps = (await edge.get("/internal/steps")).json()["steps"]
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    before, secret_before, after, secret_after = (
        (answer["choices"][0]["message"]["content"], answer["usage"]["prompt_tokens_details"]["cached_tokens"])
        for answer in answers
    )
    assert before == (after[0], 0)
    assert after[1] >= 64
    assert secret_after == (secret_before[0], secret_before[1])
    assert [step["kind"] for step in steps][:2] == ["restore", "read"] or steps[1]["kind"] == "restore"
    assert all(step["rows"] and step["duration_ms"] > 0 for step in steps)


async def test_a_folder_that_is_no_model_ends_the_process_with_a_reason(tmp_path):
    async with serving(tmp_path, tmp_path / "edge.sock") as process:
        _, errors = await process.communicate()
        assert process.returncode in (1, 2)
        assert str(tmp_path).encode() in errors


async def test_its_log_is_json_where_that_is_asked_for(tmp_path):
    async with serving(tmp_path, tmp_path / "edge.sock", "--log-format", "json") as process:
        _, errors = await process.communicate()
        events = [json.loads(line) for line in errors.splitlines()]
        assert str(tmp_path) in events[-1]["message"]
        assert {event["service"] for event in events} == {"edge_runtime"}


@pytest.mark.parametrize("option", [("--slots", "0"), ("--context", "0"), ("--threads", "-1")])
async def test_an_option_out_of_range_is_refused_by_name(tmp_path, option):
    async with serving(tmp_path, tmp_path / "edge.sock", *option) as process:
        _, errors = await process.communicate()
        assert process.returncode == 2
        assert option[0].encode() in errors
