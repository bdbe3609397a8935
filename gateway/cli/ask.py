"""`tidegate ask`: one question to the running gateway, the answer as it comes, then who gave it and why."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import orjson
import typer
from rich.console import Console
from rich.table import Table

from gateway.cli.options import JsonOption, SettingsOption, UrlOption, base_url, fail, trust
from gateway.cli.question import (
    Asked,
    BudgetOption,
    ClassOption,
    MaxTokensOption,
    ModelOption,
    Question,
    asked,
    refuse,
    unreachable,
)
from inference_protocol import headers, paths
from inference_protocol.openai_stream import chunk_facts
from inference_protocol.sse import SseDecoder

_TIMEOUT = httpx.Timeout(600.0, connect=5.0)


@dataclass(slots=True)
class Told:
    """What an answer told about itself.

    Attributes:
        first_ms: Milliseconds to the first text; `None` where none came.
        pieces: Chunks of text, which stand in for tokens where the target does not count them.
        tokens: Output tokens as the target counted them.
    """

    headers: httpx.Headers
    first_ms: float | None = None
    total_ms: float = 0.0
    pieces: int = 0
    tokens: int | None = None
    text: str = ""
    finish_reason: str | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """Output tokens a second after the first; `None` where there are too few to tell."""
        count = self.tokens if self.tokens is not None else self.pieces
        if self.first_ms is None or count < 2 or self.total_ms <= self.first_ms:
            return None
        return (count - 1) / (self.total_ms - self.first_ms) * 1000


def ask(
    question: Question,
    budget_ms: BudgetOption = None,
    data_class: ClassOption = None,
    max_tokens: MaxTokensOption = None,
    model: ModelOption = "auto",
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
    url: UrlOption = None,
) -> None:
    """Ask one question and show who answered it, why, and how fast."""
    sent = asked(question, budget_ms, data_class, max_tokens, model)
    endpoint = base_url(url, settings_file)
    console = Console(highlight=False)
    try:
        told = _converse(endpoint, sent, None if as_json else console, trust(url, settings_file))
    except httpx.TransportError as exc:
        fail(unreachable(endpoint, exc))
    if as_json:
        typer.echo(json.dumps(_as_dict(told), indent=2))
        return
    console.print("" if told.text else "(The answer is empty.)")
    console.print(_summary(told, budget_ms))


def _converse(endpoint: str, sent: Asked, console: Console | None, verify: ssl.SSLContext | bool) -> Told:
    body = {**sent.body, "stream": True, "stream_options": {"include_usage": True}}
    started = time.perf_counter()
    with (
        httpx.Client(timeout=_TIMEOUT, trust_env=False, verify=verify) as client,
        client.stream("POST", f"{endpoint}{paths.CHAT_COMPLETIONS}", headers=sent.fields, json=body) as response,
    ):
        refuse(response)
        told = Told(response.headers)
        for chunk in _chunks(response):
            facts = chunk_facts(chunk)
            if facts.error is not None:
                fail(f"The answer broke off: {facts.error.get('message')}")
            if facts.usage is not None:
                told.tokens = facts.usage.completion_tokens
            told.finish_reason = facts.finish_reason or told.finish_reason
            text = "".join((c.get("delta") or {}).get("content") or "" for c in chunk.get("choices", []))
            if text:
                told.first_ms = told.first_ms or (time.perf_counter() - started) * 1000
                told.pieces += 1
                told.text += text
                if console is not None:
                    console.print(text, end="", soft_wrap=True, markup=False)
        told.total_ms = (time.perf_counter() - started) * 1000
    return told


def _chunks(response: httpx.Response) -> Iterator[dict[str, Any]]:
    decoder = SseDecoder()
    for data in response.iter_bytes():
        for frame in decoder.feed(data):
            if frame.data is not None and not frame.is_done:
                yield orjson.loads(frame.data)


def _summary(told: Told, budget_ms: int | None) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    count = f"{told.tokens} tokens" if told.tokens is not None else f"{told.pieces} pieces (tokens were not counted)"
    rate = "" if told.tokens_per_s is None else f", {told.tokens_per_s:.1f} tokens/s"
    late = ""
    if budget_ms is not None:
        over = told.total_ms - budget_ms
        late = f"; {over:.0f} ms over the budget" if over > 0 else f"; {-over:.0f} ms inside the budget"
    table.add_row("target", f"[bold]{told.headers.get(headers.TARGET, '?')}[/bold]")
    table.add_row("reason", told.headers.get(headers.REASON, "?"))
    table.add_row("label", told.headers.get(headers.LABEL, "?"))
    table.add_row("scores", told.headers.get(headers.SCORES, "?"))
    table.add_row("first token", "none" if told.first_ms is None else f"{told.first_ms:.0f} ms")
    table.add_row("answer", f"{count} in {told.total_ms:.0f} ms{rate}{late}")
    table.add_row("request", f"{told.headers.get(headers.REQUEST_ID)}   (tidegate trace shows its way)")
    return table


def _as_dict(told: Told) -> dict[str, Any]:
    scores = (part.strip().partition("=") for part in told.headers.get(headers.SCORES, "").split(",") if part)
    return {
        "text": told.text,
        "target": told.headers.get(headers.TARGET),
        "reason": told.headers.get(headers.REASON),
        "label": told.headers.get(headers.LABEL),
        "scores": {name: float(value) for name, _, value in scores},
        "time_to_first_token_ms": None if told.first_ms is None else round(told.first_ms, 1),
        "total_ms": round(told.total_ms, 1),
        "completion_tokens": told.tokens,
        "tokens_per_s": None if told.tokens_per_s is None else round(told.tokens_per_s, 1),
        "finish_reason": told.finish_reason,
        "request_id": told.headers.get(headers.REQUEST_ID),
    }
