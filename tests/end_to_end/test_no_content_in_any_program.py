"""Canaries through the three real programs: not in their logs, spans, records or state."""

from __future__ import annotations

import httpx
import pytest

from tests.support.installation import Installation

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]
ASKED, QUERY, HEADER = "zebracanary7e1", "querycanary5d4", "headercanary9c3"
EMAIL = "zebra.canary@corp-7e1.com"


def ask(installation: Installation, content: object, **fields: object) -> httpx.Response:
    """Ask with canaries wherever a caller can put them."""
    fields.setdefault("max_tokens", 4)
    body = {"model": "auto", "messages": [{"role": "user", "content": content}], "metadata": {ASKED: ASKED}, **fields}
    url = f"{installation.url}/v1/chat/completions?q={QUERY}"
    headers = {"user-agent": HEADER, "baggage": f"x={HEADER}", "cookie": HEADER, "x-api-key": HEADER}
    return httpx.post(url, json=body, headers=headers, timeout=120, trust_env=False)


def complete(installation: Installation, prompt: object, **fields: object) -> httpx.Response:
    """Have a prompt continued."""
    body = {"model": "auto", "prompt": prompt, "max_tokens": 4, **fields}
    url = f"{installation.url}/v1/completions?q={QUERY}"
    return httpx.post(url, json=body, headers={"user-agent": HEADER}, timeout=120, trust_env=False)


def test_no_log_span_record_or_state_of_any_program_holds_what_was_asked(installation: Installation) -> None:
    installation.until_health(edge="up", cloud="up")
    answered = [
        ask(installation, f"{ASKED} {EMAIL}, who is that?"),
        ask(installation, f"Count to three, {ASKED}.", stream=True),
        ask(installation, f"{ASKED} " * 130),  # long enough for the cloud to be asked
        ask(installation, ASKED, tools=[{"type": "function", "function": {"name": ASKED}}]),
        complete(installation, f"{ASKED} {EMAIL} lives"),
        complete(installation, f"Count to three, {ASKED}.", stream=True),
    ]
    assert {response.headers["x-tidegate-target"] for response in answered} == {"edge", "cloud"}
    refused = [
        ask(installation, f"{ASKED} " * 20_000),  # no window holds it
        ask(installation, ASKED, temperature=ASKED),
        ask(installation, ASKED, tools=ASKED),
        ask(installation, {"x": ASKED}),
        ask(installation, ASKED, model=ASKED),
        ask(installation, [{"type": ASKED, ASKED: ASKED}]),
        complete(installation, {"x": ASKED}),
        complete(installation, ASKED, best_of=ASKED),
    ]
    assert all(400 <= response.status_code < 500 for response in refused), [r.status_code for r in refused]
    assert not [response.text for response in refused if ASKED in response.text]

    def written() -> dict[str, str]:
        files = [p for p in installation.state_dir.rglob("*") if p.is_file() and "models" not in p.parts]
        return {path.name: path.read_bytes().decode("utf-8", "replace").lower() for path in files}

    ids = [response.headers["x-request-id"] for response in answered]
    installation.until(lambda: all(i in written()["requests.jsonl"] for i in ids), "the records")
    # Spans are written in batches, every few seconds.
    installation.until(lambda: all(i in written()["gateway.jsonl"] for i in ids), "the gateway's spans")
    found = written()
    assert {"up.log", "requests.jsonl", "gateway.jsonl", "edge_runtime.jsonl", "cloud_runtime.jsonl"} <= found.keys(), (
        found.keys()
    )
    leaks = [
        f"{canary} in {name}"
        for name, text in found.items()
        for canary in (ASKED, QUERY, HEADER, EMAIL)
        if canary in text
    ]
    assert leaks == []
