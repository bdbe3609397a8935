"""A whole edge process: its model is exchanged under answers that stream over its socket."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx

from tests.edge_runtime.residency.conftest import NAME
from tests.edge_runtime.test_edge_process import client, ready, serving


async def stream(edge: httpx.AsyncClient, max_tokens: int) -> tuple[str, str | None]:
    """An answer's text, and why it ended."""
    body = {"model": NAME, "messages": [{"role": "user", "content": "the"}], "temperature": 0, "stream": True}
    text, finish = "", None
    async with edge.stream("POST", "/v1/chat/completions", json=body | {"max_tokens": max_tokens}) as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                [choice] = json.loads(line[6:])["choices"]
                text += choice["delta"].get("content") or ""
                finish = choice["finish_reason"] or finish
    return text, finish


async def test_streams_over_the_socket_end_well_while_the_model_is_exchanged(versions, tmp_path: Path) -> None:
    old = versions.serve(0)
    socket = tmp_path / "edge.sock"
    profile = tmp_path / "device.json"
    options = ("--slots", "8", "--context", "4096", "--threads", "1", "--device-profile", str(profile))
    async with serving(versions.folder, socket, *options, name=NAME), client(socket) as edge:
        assert (await ready(edge))["models"][0]["digest"] == old
        streams = [asyncio.create_task(stream(edge, 1500)) for _ in range(8)]
        while (await state(edge))["running"] < 8:  # noqa: ASYNC110  # another process only tells its state
            await asyncio.sleep(0.01)
        new = versions.serve(1)
        while (found := await state(edge))["models"][0]["digest"] != new:
            assert found["status"] == "ready"
            await asyncio.sleep(0.05)
        after = await stream(edge, 20)
        answers = await asyncio.gather(*streams)
        assert {finish for _, finish in [*answers, after]} <= {"length", "stop"}
        # Kernels for one row and for several may round differently, so only the beginnings are sure to be alike.
        assert len({text[:20] for text, _ in answers}) == 1, "eight greedy answers to one question by one version"
        assert after[0][:20] not in {"", answers[0][0][:20]}
    assert set(json.loads(profile.read_text(encoding="utf-8"))["models"]) == {old, new}


async def state(edge: httpx.AsyncClient) -> dict:
    return dict((await edge.get("/internal/state")).json())
