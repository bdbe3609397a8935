"""What `tidegate up` tells a person: what it starts, how far that is, and how to use it. Pure: values in, text out.

Print it with `soft_wrap=True`, so that what is meant to be pasted is not broken at the terminal's edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.text import Text

QUESTION = "What is the capital of France?"


@dataclass(frozen=True, slots=True)
class Bearings:
    """Where things are.

    Attributes:
        base_url: Of the gateway, without a path.
        model: A public model name that it serves.
        programs: Name and description of each program that is started.
        records_dir: Decision and outcome records.
        traces_dir: Spans.
    """

    base_url: str
    model: str
    programs: tuple[tuple[str, str], ...]
    records_dir: Path
    traces_dir: Path


@dataclass(frozen=True, slots=True)
class Readiness:
    """How far the start has come, as `/readyz` tells it.

    Attributes:
        ready: Whether requests are answered.
        targets: Each target's health, in the order of the settings.
        details: Why a target is not up, where it is known.
    """

    ready: bool
    targets: Mapping[str, str]
    details: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_answer(cls, answer: Mapping[str, Any]) -> Readiness:
        """Read the body of a `/readyz` answer."""
        targets = answer.get("targets", {})  # which only callers are told of
        return cls(
            answer["status"] == "ready",
            {name: one["health"] for name, one in targets.items()},
            {name: one["detail"] for name, one in targets.items() if one["health"] == "down" and one["detail"]},
        )


def starting(bearings: Bearings) -> Text:
    """Say what is being started."""
    width = max(len(name) for name, _ in bearings.programs)
    text = Text()
    text.append("Starting Tidegate\n", style="bold")
    for name, description in bearings.programs:
        text.append(f"  {name:<{width}}  ", style="cyan")
        text.append(f"{description}\n")
    return text


def progress(before: Readiness | None, now: Readiness, elapsed_s: float) -> Text | None:
    """Say what has changed since, or `None` where nothing has.

    Args:
        before: The last state told of.
        now: The state at present.
        elapsed_s: Since the start.
    """
    if before == now:
        return None
    text = Text()
    text.append(f"{elapsed_s:5.1f} s  ", style="dim")
    for index, (name, health) in enumerate(now.targets.items()):
        text.append(", " if index else "")
        text.append(f"{name} {health}", style="green" if health == "up" else "yellow")
        if name in now.details:
            text.append(f" ({now.details[name]})", style="dim")
    return text


def ready(bearings: Bearings) -> Text:
    """Say how to use what now answers, where to look afterwards, and how to stop it."""
    text = Text()
    text.append(f"Ready: {bearings.base_url}/v1\n\n", style="bold green")
    text.append("# Ask with curl\n", style="dim")
    text.append(_curl(bearings) + "\n\n")
    text.append("# Ask with Python's openai client\n", style="dim")
    text.append(_python(bearings) + "\n\n")
    text.append("records  ", style="cyan").append(f"{bearings.records_dir}\n")
    text.append("traces   ", style="cyan").append(f"{bearings.traces_dir}, shown by `tidegate trace <x-request-id>`\n")
    text.append("stop     ", style="cyan").append("Ctrl-C finishes the requests in flight; once more kills\n")
    return text


def _curl(bearings: Bearings) -> str:
    return (
        f"curl -i {bearings.base_url}/v1/chat/completions -H 'content-type: application/json' -d '\n"
        f'  {{"model": "{bearings.model}", "temperature": 0,\n'
        f'   "messages": [{{"role": "user", "content": "{QUESTION}"}}]}}\''
    )


def _python(bearings: Bearings) -> str:
    return (
        "from openai import OpenAI\n"
        f'client = OpenAI(base_url="{bearings.base_url}/v1", api_key="unused")\n'
        f'question = [{{"role": "user", "content": "{QUESTION}"}}]\n'
        "stream = client.chat.completions.create(\n"
        f'    model="{bearings.model}", messages=question, temperature=0, stream=True)\n'
        "for chunk in stream:\n"
        '    print(chunk.choices[0].delta.content or "", end="", flush=True)'
    )
