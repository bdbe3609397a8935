"""The main job, through real processes, real sockets and the real models."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from tests.support.installation import Installation

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]
MODEL = "smollm2-135m-instruct"
QUESTION = "What is the capital of France?"


def spans_of(installation: Installation, trace_id: str) -> list[dict[str, Any]]:
    found = []
    for path in installation.state_dir.glob("traces/*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            for resource in json.loads(line)["resourceSpans"]:
                service = next(
                    a["value"]["stringValue"] for a in resource["resource"]["attributes"] if a["key"] == "service.name"
                )
                for scope in resource["scopeSpans"]:
                    found += [{**span, "service": service} for span in scope["spans"] if span["traceId"] == trace_id]
    return found


def test_an_ordinary_client_asks_and_one_trace_shows_the_way(installation: Installation) -> None:
    client = openai.OpenAI(base_url=f"{installation.url}/v1", api_key="unused", max_retries=0)
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=[{"role": "user", "content": QUESTION}], stream=True, temperature=0, max_tokens=24
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in raw.parse())
    assert "Paris" in text
    headers = raw.headers
    for name in ("x-request-id", "x-tidegate-target", "x-tidegate-reason", "x-tidegate-decision", "x-tidegate-policy"):
        assert headers[name]
    assert "ttft;dur=" in headers["server-timing"]
    trace_id = installation.trace_id_of(headers["x-request-id"])

    def one_program_serves_what_another_asked() -> bool:
        spans = {span["spanId"]: span for span in spans_of(installation, trace_id)}
        parents = [spans.get(span.get("parentSpanId")) for span in spans.values() if span["service"] != "gateway"]
        return any(parent is not None and parent["service"] == "gateway" for parent in parents)

    # Each program writes its own spans, a batch at a time and in no order.
    installation.until(one_program_serves_what_another_asked, "a span of a runtime below one of the gateway")


def test_restricted_and_confidential_requests_are_answered_by_the_edge(installation: Installation) -> None:
    for data_class in ("restricted", "confidential"):
        response = installation.chat(QUESTION, headers={"x-data-class": data_class}, max_tokens=4)
        assert response.status_code == 200
        assert response.headers["x-tidegate-target"] == "edge"


def test_a_secret_in_the_text_keeps_the_request_on_the_edge(installation: Installation) -> None:
    response = installation.chat("Is AKIAIOSFODNN7EXAMPLQ a good key? " + "word " * 700, max_tokens=4)
    assert response.headers["x-tidegate-target"] == "edge"
    assert response.headers["x-tidegate-label"].startswith("restricted")


def test_a_long_public_request_goes_to_the_cloud_and_its_trace_spans_both(installation: Installation) -> None:
    response = installation.chat("word " * 700, max_tokens=4)
    assert response.headers["x-tidegate-target"] == "cloud"
    trace_id = installation.trace_id_of(response.headers["x-request-id"])
    installation.until(
        lambda: "cloud_runtime" in {s["service"] for s in spans_of(installation, trace_id)}, "the cloud's spans"
    )


def test_a_prompt_of_6000_tokens_is_explained_with_its_size_and_the_other_choice(installation: Installation) -> None:
    messages = [{"role": "user", "content": "tide " * 6000}]
    response = httpx.post(
        f"{installation.url}/v1/route/explain",
        json={"model": MODEL, "messages": messages, "max_tokens": 64},
        trust_env=False,
        timeout=30,
    )
    found = response.json()
    assert found["target"] == "cloud"
    assert found["scores"]["size"] == 1.0
    assert found["size"]["tokens"]["likely"] > 5500
    assert found["targets"]["edge"]["excluded"]["kind"] == "window"


def test_sixteen_requests_at_once_each_get_their_own_answer(installation: Installation) -> None:
    def ask(number: int) -> tuple[str, str]:
        prompt = f"Repeat this word exactly and nothing else: marker{number * 37:04d}"
        response = installation.chat(prompt, headers={"x-data-class": "restricted"}, max_tokens=16)
        assert response.status_code == 200, response.text
        return prompt, response.json()["choices"][0]["message"]["content"]

    alone = dict(map(ask, (3, 11)))
    with ThreadPoolExecutor(16) as pool:
        together = dict(pool.map(ask, range(16)))
    markers = [f"marker{number * 37:04d}" for number in range(16)]
    for number, (_, answer) in enumerate(together.items()):
        others = [marker for marker in markers if marker != markers[number]]
        assert not any(marker in answer for marker in others)
    for prompt, answer in alone.items():
        assert together[prompt][:12] == answer[:12]


def test_ask_streams_the_answer_and_then_says_who_gave_it_and_why(installation: Installation) -> None:
    done = installation.tidegate("ask", QUESTION, "--max-tokens", "16", "--data-class", "restricted")
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout
    for word in ("target", "edge", "reason", "scores", "privacy=1.000", "first token", "tokens/s"):
        assert word in done.stdout
    as_json = installation.tidegate("ask", QUESTION, "--max-tokens", "16", "--budget-ms", "60000", "--json")
    told = json.loads(as_json.stdout)
    assert told["scores"].keys() == {"latency", "privacy", "size"}
    assert told["time_to_first_token_ms"] > 0


def test_trace_prints_the_waterfall_of_a_request(installation: Installation) -> None:
    response = installation.chat(QUESTION, max_tokens=4, headers={"x-data-class": "internal"})
    done = installation.tidegate("trace", response.headers["x-request-id"])
    assert done.returncode == 0, done.stderr
    for word in ("route balanced", "chat", "prefill", "decode", "scan", "decide"):
        assert word in done.stdout


def test_explain_prints_the_decision(installation: Installation) -> None:
    done = installation.tidegate("explain", "My card is 4111 1111 1111 1111", "--max-tokens", "16")
    assert done.returncode == 0, done.stderr
    assert "restricted" in done.stdout
    assert "4111 1111" not in done.stdout
