"""Vectors through all programs, by an ordinary client: from the edge, from the cloud, and from nowhere else."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.end_to_end.test_main_job import spans_of
from tests.support.installation import Installation

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]
MODEL = "all-minilm-l6-v2"
TEXTS = ("The tide turns at noon.", "High water is at twelve.", "He bought a loaf of bread.")
LONG = "The tide comes in and the tide goes out again. " * 12


@pytest.fixture(scope="module")
def client(installation: Installation) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{installation.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


def embed(installation: Installation, given: Any, data_class: str = "public", **fields: Any) -> httpx.Response:
    body = {"model": MODEL, "input": given, **fields}
    headers = {"x-data-class": data_class}
    return httpx.post(f"{installation.url}/v1/embeddings", json=body, headers=headers, timeout=120, trust_env=False)


def vectors(response: httpx.Response) -> list[list[float]]:
    assert response.status_code == 200, response.text
    return [row["embedding"] for row in response.json()["data"]]


def furthest(a: Sequence[float], b: Sequence[float]) -> float:
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def alike(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def test_an_ordinary_client_gets_the_same_vectors_in_either_encoding(client: openai.OpenAI) -> None:
    asked = client.embeddings.create(model=MODEL, input=list(TEXTS), user="u-1")  # it asks for base64 by itself
    plain = client.embeddings.create(model=MODEL, input=list(TEXTS), encoding_format="float")
    found = [row.embedding for row in asked.data]
    assert [row.index for row in asked.data] == [0, 1, 2]
    assert [len(each) for each in found] == [384, 384, 384]
    assert all(furthest(a, b.embedding) < 1e-7 for a, b in zip(found, plain.data, strict=True))
    assert all(math.isclose(alike(each, each), 1.0, abs_tol=1e-5) for each in found)
    assert alike(found[0], found[1]) > alike(found[0], found[2]) + 0.2
    assert asked.model == MODEL
    assert asked.usage.prompt_tokens == asked.usage.total_tokens == 25


def test_edge_and_cloud_give_the_same_vectors_and_the_label_chooses_between_them(installation: Installation) -> None:
    at_edge = embed(installation, list(TEXTS), "restricted")
    explained = {}
    for target in ("edge", "cloud"):
        # The stand-in is asked by itself: which target a public request goes to is the policy's to say.
        url = installation.cloud_url if target == "cloud" else installation.url
        body = {"model": MODEL, "input": list(TEXTS)}
        explained[target] = vectors(httpx.post(f"{url}/v1/embeddings", json=body, timeout=120, trust_env=False))
    assert at_edge.headers["x-tidegate-target"] == "edge"
    for own, others in zip(vectors(at_edge), explained["cloud"], strict=True):
        assert furthest(own, others) < 1e-4


def test_a_large_public_request_is_answered_by_the_cloud_and_its_trace_spans_both(installation: Installation) -> None:
    response = embed(installation, [LONG] * 30)
    assert (response.headers["x-tidegate-target"], len(vectors(response))) == ("cloud", 30)
    trace_id = installation.trace_id_of(response.headers["x-request-id"])

    def served() -> set[tuple[str, str]]:
        return {(span["service"], span["name"]) for span in spans_of(installation, trace_id)}

    wanted = {("gateway", f"embeddings {MODEL}"), ("cloud_runtime", "embed"), ("cloud_runtime", "queue")}
    installation.until(lambda: wanted <= served(), "the spans of both programs")


@pytest.mark.parametrize(
    "given",
    [["fine", "my card is 4111 1111 1111 1111 thanks " + LONG], [101, 7592, 102], [[101, 102], [101, 7592, 102]]],
    ids=["a secret in one input", "tokens", "lists of tokens"],
)
def test_what_is_found_or_cannot_be_read_stays_on_the_edge(installation: Installation, given: Any) -> None:
    response = embed(installation, given)
    assert (response.status_code, response.headers["x-tidegate-target"]) == (200, "edge")


def test_tokens_are_embedded_as_the_text_that_they_are(installation: Installation) -> None:
    text, ids = embed(installation, "hello"), embed(installation, [101, 7592, 102])
    assert furthest(vectors(text)[0], vectors(ids)[0]) < 1e-6
    assert text.json()["usage"] == ids.json()["usage"] == {"prompt_tokens": 3, "total_tokens": 3}


@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"input": ["fine", LONG * 10]}, 400, "context_length_exceeded", "input[1]"),
        ({"input": "a", "dimensions": 100}, 400, "upstream_blamed_request", "dimensions"),
        ({"input": ["a", ""]}, 400, "invalid_field", "input[1]"),
        ({"input": [31000]}, 400, "upstream_blamed_request", "input[0]"),
        ({"input": "a", "model": "smollm2-135m-instruct"}, 400, "capability_unavailable", "model"),
        ({"input": "a", "model": "no-such"}, 404, "model_not_found", "model"),
    ],
)
def test_what_cannot_be_embedded_is_refused_by_its_name(
    installation: Installation, fields: dict[str, Any], status: int, code: str, param: str
) -> None:
    error = embed(installation, fields.pop("input"), **fields)
    assert (error.status_code, error.json()["error"]["code"], error.json()["error"]["param"]) == (status, code, param)


def test_a_chat_with_a_model_that_embeds_is_refused(installation: Installation) -> None:
    response = installation.chat("hello", model=MODEL)
    assert response.status_code == 400
    assert "cannot do chats with this model" in response.json()["error"]["message"]


def test_a_longer_input_is_cut_where_that_is_asked_for(installation: Installation) -> None:
    cut = embed(installation, LONG * 10, truncate_prompt_tokens=-1)
    assert (cut.status_code, cut.json()["usage"]["prompt_tokens"]) == (200, 256)
    assert embed(installation, LONG * 10, truncate_prompt_tokens=16).json()["usage"]["prompt_tokens"] == 16


def test_the_models_are_listed_and_a_request_is_explained(installation: Installation) -> None:
    listed = {row["id"]: row["targets"] for row in installation.get("/v1/models").json()["data"]}
    assert listed[MODEL] == ["edge", "cloud"]
    body = {"model": MODEL, "input": "my card is 4111 1111 1111 1111"}
    explained = httpx.post(f"{installation.url}/v1/route/explain", json=body, trust_env=False, timeout=30).json()
    assert (explained["target"], explained["label"]["class"]) == ("edge", "restricted")


def test_what_was_asked_is_counted_and_recorded(installation: Installation) -> None:
    response = embed(installation, "my name is in no record")

    def mine() -> list[str]:
        lines = [
            line
            for path in installation.state_dir.glob("records/*.jsonl")
            for line in path.read_text(encoding="utf-8").splitlines()
        ]
        return [line for line in lines if response.headers["x-request-id"] in line]

    installation.until(lambda: any('"kind":"outcome"' in line for line in mine()), "the outcome's record")
    assert any('"input":8' in line for line in mine() if '"kind":"outcome"' in line)
    assert "my name" not in "".join(mine())


def test_the_example_of_the_page_prints_what_it_is_for(installation: Installation) -> None:
    page = (Path(__file__).parents[2] / "docs/embeddings.md").read_text(encoding="utf-8")
    example = page.split("```python\n")[1].split("```")[0].replace("http://127.0.0.1:8080", installation.url)
    ran = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=60, check=False)
    found = re.fullmatch(r"water (0\.\d\d), bread (-?0\.\d\d)\n", ran.stdout)
    assert found is not None, ran.stderr
    assert float(found[1]) > float(found[2]) + 0.2
