"""What pseudonyms add before the first token of a real stream: the same requests with and without, turn by turn."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from routing_policies.policy.loader import load_text
from routing_policies.snapshot import Health
from tests.support.running_gateway import RunningGateway, running_gateway, settings_for
from tests.support.scripted_runtime import DONE_EVENT, Received, ScriptedRuntime, event

_POLICY = """
apiVersion: tidegate/v1
name: restoring
defaults: {class: public}
findings: {pii: confidential}
targets:
  cloud: {kind: cloud, clearance: CLEARANCE, tags_allowed: [ALLOWED]PSEUDONYMS}
"""
_WITH = _POLICY.replace("CLEARANCE", "internal").replace("ALLOWED", "").replace("PSEUDONYMS", ", pseudonymize: [pii]")
_WITHOUT = _POLICY.replace("CLEARANCE", "restricted").replace("ALLOWED", "pii").replace("PSEUDONYMS", "")


async def _echo(request: Received, seen: asyncio.Event) -> None:
    """Say what was asked, from its last word on, so that every token comes back; only the first until that is read."""
    first, *others = reversed(request.json["messages"][-1]["content"].split(" "))
    await request.head()
    await request.chunk(event(content=f"{first} "))
    await seen.wait()
    for word in others:
        await request.chunk(event(content=f"{word} "))
    await request.chunk(event(finish_reason="stop"))
    await request.chunk(DONE_EVENT)
    await request.end()


async def measured(prompt: str, value: str, rounds: int = 100) -> dict[str, float]:
    """Return the median milliseconds to the first content, with and without, and their difference.

    Args:
        prompt: Holds values that are replaced.
        value: The one that it ends with, which must come back.
        rounds: Of each.
    """
    taken: dict[str, list[float]] = {"with": [], "without": []}
    seen = asyncio.Event()
    async with ScriptedRuntime(lambda request: _echo(request, seen)) as cloud:
        endpoint = f"http://127.0.0.1:{cloud.port}"
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            settings = [settings_for(Path(folder), edge=None, cloud=endpoint) for folder in (one, other)]
            async with (
                running_gateway(settings[0], load_text(_WITH, "with.yaml")) as replacing,
                running_gateway(settings[1], load_text(_WITHOUT, "without.yaml")) as plain,
            ):
                await replacing.until_health(cloud=Health.UP)
                await plain.until_health(cloud=Health.UP)
                for _ in range(rounds):
                    taken["with"].append(await _ttft_ms(replacing, prompt, value, seen))
                    taken["without"].append(await _ttft_ms(plain, prompt, value, seen))
        sent = [each.body for each in cloud.requests if each.method == "POST"]
        assert {value.encode() in body for body in sent} == {True, False}, "one of the two replaces it"
    medians = {f"{name}_ms": statistics.median(some) for name, some in taken.items()}
    return {**medians, "added_ms": medians["with_ms"] - medians["without_ms"]}


async def _ttft_ms(gateway: RunningGateway, prompt: str, value: str, seen: asyncio.Event) -> float:
    body = {"model": "auto", "stream": True, "messages": [{"role": "user", "content": prompt}]}
    seen.clear()
    began = time.perf_counter()
    first: float | None = None
    said = ""
    async with gateway.client.stream("POST", "/v1/chat/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                said += choice["delta"].get("content") or ""
            if said and first is None:
                first = (time.perf_counter() - began) * 1000
                seen.set()
    assert first is not None, "it answered"
    assert value in said, "the caller reads the value again"
    return first
