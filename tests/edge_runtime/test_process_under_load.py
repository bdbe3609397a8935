"""`python -m edge_runtime` as a process under many requests at once: what it holds on to, and how long it lets wait."""

import asyncio
import itertools
import json
import random
import re
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.edge_runtime.test_edge_process import client, ready, serving

pytestmark = [pytest.mark.models, pytest.mark.timeout(240)]

REQUESTS, AT_ONCE, SLOTS = 200, 12, 4
PHASES = ("sent", "queued", "reading", "first token", "generating")
CHUNKS = (16, 64, 128)


def resident_mb(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1000


async def ask(edge, body, hang_up_in=None):
    """Stream an answer; hang up in the phase that is named. Return how many pieces came."""
    pieces, patience = 0, {"sent": 0, "queued": 0.005, "reading": 0.05}.get(hang_up_in)
    try:
        async with asyncio.timeout(patience), edge.stream("POST", "/v1/completions", json=body) as answer:
            assert answer.status_code == 200
            async with aclosing(answer.aiter_lines()) as lines:
                async for line in lines:
                    pieces += line.startswith("data: {")
                    if (hang_up_in == "first token" and pieces) or (hang_up_in == "generating" and pieces > 2):
                        break
    except TimeoutError:
        assert patience is not None
    return pieces


async def test_requests_that_are_hung_up_on_in_every_phase_leave_an_idle_process_of_the_same_size(edge_model, tmp_path):
    chance, socket = random.Random(4), tmp_path / "edge.sock"
    options = ("--slots", SLOTS, "--context", 256)
    async with serving(edge_model, socket, *options, limit_s=240) as process, client(socket) as edge:
        await ready(edge)
        gate, memory = asyncio.Semaphore(AT_ONCE), []

        async def one(number):
            prompt = [chance.randrange(1000, 40_000) for _ in range(chance.choice([1, 4, 8, 24]))]
            body = {
                "model": "smollm2",
                "prompt": prompt,
                "max_tokens": chance.choice([1, 2, 3]),
                "temperature": chance.choice([0, 0.9]),
                "stream": True,
                "logit_bias": {"0": -100, "2": -100},
            }
            async with gate:
                memory.append(resident_mb(process.pid))
                if number % 5:
                    assert await ask(edge, body) >= 1
                else:
                    await ask(edge, body | {"max_tokens": 8}, PHASES[number // 5 % len(PHASES)])

        await asyncio.gather(*map(one, range(REQUESTS)))
        state = {"running": 1}
        while state["running"] or state["waiting"]:
            state = (await edge.get("/internal/state")).json()
        assert (state["status"], state["prefill_tokens_queued"]) == ("ready", 0)
        assert await ask(edge, {"model": "smollm2", "prompt": [5000], "max_tokens": 1, "stream": True}) >= 1
        half = REQUESTS // 2  # by then every slot has been filled
        assert max(memory[half:]) - max(memory[:half]) < 16


async def test_a_stream_gets_a_token_after_each_chunk_of_a_long_prompt(edge_model, tmp_path):
    socket = tmp_path / "edge.sock"
    async with (
        serving(edge_model, socket, "--slots", "2", "--context", "1024", limit_s=180) as _,
        client(socket) as edge,
    ):
        await ready(edge)
        common = {"model": "smollm2", "temperature": 0, "stream": True, "logit_bias": {"0": -100, "2": -100}}
        begun = asyncio.Event()

        async def run_on():
            async with edge.stream("POST", "/v1/completions", json=common | {"prompt": [5000], "max_tokens": 60}) as it:
                async for _ in it.aiter_lines():
                    begun.set()

        running = asyncio.create_task(run_on())
        await begun.wait()
        await ask(edge, common | {"prompt": list(range(5000, 5600)), "max_tokens": 1})
        await running
        steps = json.loads((await edge.get("/internal/steps")).content)["steps"]
    stream = next(step["rows"][0] for step in steps if step["kind"] == "decode")
    told = next(at for at, step in enumerate(steps) if step["kind"] == "decode" and stream in step["rows"])
    last = max(at for at, step in enumerate(steps) if stream in step["rows"])
    during = [step for step in steps[told : last + 1] if stream in step["rows"] or step["kind"] == "read"]
    assert sum(step["kind"] == "read" for step in during) >= 600 // max(CHUNKS)
    assert all(step["tokens"] <= max(CHUNKS) for step in during if step["kind"] == "read")
    assert not any(a["kind"] == b["kind"] == "read" for a, b in itertools.pairwise(during))
