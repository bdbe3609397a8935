"""`tidegate ask`: one question to the running gateway, the answer as it comes, then who gave it and why."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import httpx
import orjson
import typer
from rich.console import Console
from rich.table import Table

from gateway.cli.options import JsonOption, SettingsOption, UrlOption, base_url, fail
from inference_protocol import headers
from inference_protocol.openai_stream import chunk_facts
from inference_protocol.sse import SseDecoder


@dataclass(slots=True)
class Told:
    """What an answer told about itself."""

    headers: httpx.Headers
    first_ms: float = 0.0
    total_ms: float = 0.0
    tokens: int = 0
    text: str = ""
    finish_reason: str | None = None

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second, after the first."""
        span_s = (self.total_ms - self.first_ms) / 1000
        return (self.tokens - 1) / span_s if self.tokens > 1 and span_s > 0 else 0.0


def ask(
    question: Annotated[str, typer.Argument(help="What to ask.")],
    budget_ms: Annotated[int | None, typer.Option(help="Milliseconds until the whole answer is due.")] = None,
    data_class: Annotated[str | None, typer.Option(help="public, internal, confidential or restricted.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Most tokens of the answer.")] = None,
    model: Annotated[str, typer.Option(help="Public model name.")] = "auto",
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
    url: UrlOption = None,
) -> None:
    """Ask one question and show who answered it, why, and how fast."""
    fields = {"content-type": "application/json"}
    if budget_ms is not None:
        fields[headers.LATENCY_BUDGET_MS] = str(budget_ms)
    if data_class is not None:
        fields[headers.DATA_CLASS] = data_class
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
    }
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    console = Console(highlight=False)
    endpoint = base_url(url, settings_file)
    try:
        told = _converse(endpoint, fields, body, console, quiet=as_json)
    except httpx.ConnectError:
        fail(f"Nothing answers at {endpoint}. Start it with `tidegate up`, or name another place with --url.")
    except httpx.TransportError as exc:
        fail(f"The connection to {endpoint} ended: {exc}")
    if as_json:
        typer.echo(json.dumps(_as_dict(told), indent=2))
    else:
        console.print()
        console.print(_summary(told))


def _converse(endpoint: str, fields: dict[str, str], body: dict[str, Any], console: Console, *, quiet: bool) -> Told:
    started = time.perf_counter()

    def elapsed_ms() -> float:
        return (time.perf_counter() - started) * 1000

    timeout = httpx.Timeout(600.0, connect=5.0)
    with (
        httpx.Client(timeout=timeout, trust_env=False) as client,
        client.stream("POST", f"{endpoint}/v1/chat/completions", headers=fields, json=body) as response,
    ):
        if response.status_code != 200:
            _refused(response)
        told = Told(response.headers)
        for chunk in _chunks(response):
            facts = chunk_facts(chunk)
            if facts.error is not None:
                fail(f"The answer broke off: {facts.error.get('message')}")
            if facts.usage is not None:
                told.tokens = facts.usage.completion_tokens
            told.finish_reason = facts.finish_reason or told.finish_reason
            text = "".join((c.get("delta") or {}).get("content") or "" for c in chunk.get("choices", []))
            if text and not told.first_ms:
                told.first_ms = elapsed_ms()
            told.text += text
            if text and not quiet:
                console.print(text, end="", soft_wrap=True, markup=False)
        told.total_ms = elapsed_ms()
    return told


def _chunks(response: httpx.Response) -> Iterator[dict[str, Any]]:
    decoder = SseDecoder()
    for data in response.iter_bytes():
        for frame in decoder.feed(data):
            if frame.data is not None and not frame.is_done:
                yield orjson.loads(frame.data)


def _refused(response: httpx.Response) -> None:
    response.read()
    try:
        error = orjson.loads(response.content)["error"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        fail(f"HTTP {response.status_code} from something that is not Tidegate.")
    fail(f"{error['message']}  ({response.status_code} {error['code']}, {response.headers.get(headers.REQUEST_ID)})")


def _summary(told: Told) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    table.add_row("target", f"[bold]{told.headers.get(headers.TARGET, '?')}[/bold]")
    table.add_row("reason", told.headers.get(headers.REASON, "?"))
    table.add_row("label", told.headers.get(headers.LABEL, "?"))
    table.add_row("scores", told.headers.get(headers.SCORES, "?"))
    table.add_row("first token", f"{told.first_ms:.0f} ms")
    table.add_row("answer", f"{told.tokens} tokens in {told.total_ms:.0f} ms, {told.tokens_per_s:.1f} tokens/s")
    table.add_row("request", f"{told.headers.get(headers.REQUEST_ID)}   (tidegate trace shows its way)")
    return table


def _as_dict(told: Told) -> dict[str, Any]:
    return {
        "text": told.text,
        "target": told.headers.get(headers.TARGET),
        "reason": told.headers.get(headers.REASON),
        "label": told.headers.get(headers.LABEL),
        "scores": dict(
            (name, float(value))
            for name, _, value in (part.strip().partition("=") for part in told.headers[headers.SCORES].split(","))
        ),
        "time_to_first_token_ms": round(told.first_ms, 1),
        "total_ms": round(told.total_ms, 1),
        "completion_tokens": told.tokens,
        "tokens_per_s": round(told.tokens_per_s, 1),
        "finish_reason": told.finish_reason,
        "request_id": told.headers.get(headers.REQUEST_ID),
    }
