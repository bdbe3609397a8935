"""Canaries on the ways that few requests take: completions, second attempts, read answers, detectors, refusals.

They must be found in no sink, as on the plain way (`test_no_content_anywhere_else.py`).
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from gateway.detector_settings import ClassifierSettings, DetectorSettings, PresidioSettings
from gateway.detectors.presidio import PresidioDetector
from gateway.detectors.second_tier import SecondTier
from gateway.reach_settings import AttemptSettings
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.loader import load_text
from tests.gateway.conftest import HouseFactory
from tests.support.canaries import (
    ANSWERED,
    ANSWERS,
    ASKED,
    CANARIES,
    EMAIL,
    HEADER,
    QUERY,
    Sinks,
    able,
    beside_the_body,
    body,
    post,
)
from tests.support.scripted_runtime import DONE_EVENT, Answer, Received, ScriptedRuntime, event, says
from tests.support.waiting import until

COMPLETIONS = "/v1/completions"
CARD = "4111 1111 1111 1111"
PAYS = f"{ANSWERED} pays with {CARD}, and {EMAIL} too."


def policy(more: str = "", *, cloud: str = "") -> LoadedPolicy:
    """The cloud first, for whatever may go there."""
    return load_text(
        f"""
apiVersion: tidegate/v1
name: canaries
defaults: {{class: public}}
targets:
  cloud: {{kind: cloud, clearance: internal, quality: 1.0{cloud}}}
  edge: {{kind: edge, clearance: restricted, quality: 0.1}}
weights: {{quality: 1.0}}
{more}
""",
        "canaries.yaml",
    )


async def continues(request: Received) -> None:
    """Complete a prompt, streamed or not."""
    envelope = {"id": "c", "object": "text_completion", "model": request.json["model"]}
    text = f"{ANSWERED} {request.json['prompt']}"
    whole = {**envelope, "choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}
    if not request.json.get("stream"):
        await request.json_answer(200, whole)
        return
    await request.head()
    for at in range(0, len(text), 5):
        choice = {"index": 0, "text": text[at : at + 5], "finish_reason": None}
        await request.chunk(b"data: " + json.dumps({**envelope, "choices": [choice]}).encode() + b"\n\n")
    await request.chunk(b"data: [DONE]\n\n")
    await request.end()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("answer", [continues, *ANSWERS[1:]], ids=lambda answer: answer.__name__)
async def test_a_completion_is_in_no_sink_and_its_values_do_not_leave(
    house: HouseFactory, sinks: Sinks, answer: Answer, stream: bool
) -> None:
    runtimes = {"cloud": ScriptedRuntime(answer, able(window=8192)), "edge": ScriptedRuntime(answer, able())}
    async with house(loaded=policy(cloud=", pseudonymize: [pii]"), **runtimes) as h:
        asked = {"model": "auto", "prompt": f"{ASKED} {EMAIL}", "suffix": None, "stream": stream, "max_tokens": 8}
        response = await post(h.gateway, asked, COMPLETIONS)
        if answer is continues:
            assert response.status_code == 200
            assert stream or f"{ANSWERED} {ASKED} {EMAIL}" in response.text
        assert h.cloud.posts, "the cloud was not asked"
        assert EMAIL.encode() not in b"".join(each.body for each in h.cloud.posts)
        beside = beside_the_body(h.cloud) + beside_the_body(h.edge)
        assert not [canary for canary in (ASKED, HEADER, QUERY, EMAIL) if canary.lower() in beside]
    assert sinks.holding(*CANARIES, EMAIL) == []


@pytest.mark.parametrize(
    "content",
    [
        {"model": "auto", "prompt": {"x": ASKED}},
        {"model": "auto", "prompt": [ASKED, {"x": ASKED}]},
        {"model": ASKED, "prompt": ASKED},
        {"model": "auto", "prompt": ASKED, "best_of": ASKED},
        {"model": "auto", "prompt": ASKED, "logprobs": ASKED},
        {"model": "auto", "prompt": ASKED, "suffix": ASKED},
        f'{{"prompt": {ASKED}'.encode(),
    ],
    ids=range(7),
)
async def test_a_refused_completion_is_not_repeated(
    house: HouseFactory, sinks: Sinks, content: bytes | dict[str, Any]
) -> None:
    async with house() as h:
        response = await post(h.gateway, content, COMPLETIONS)
        assert 400 <= response.status_code < 500
        assert ASKED not in response.text + str(response.headers)
        assert not h.edge.posts + h.cloud.posts
    assert sinks.holding(*CANARIES) == []


async def never(request: Received) -> None:
    await request.gone.wait()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("attempts", "budget", "cause"),
    [
        (AttemptSettings(hedge_after=0.05), {}, "hedge"),
        (AttemptSettings(), {"x-latency-budget-ms": "1500"}, "hand-over"),
    ],
    ids=["hedge", "hand-over"],
)
async def test_a_second_attempt_beside_a_slow_one_writes_no_content_down(
    house: HouseFactory, sinks: Sinks, attempts: AttemptSettings, budget: dict[str, str], cause: str, stream: bool
) -> None:
    runtimes = {"cloud": ScriptedRuntime(never, able(window=8192)), "edge": ScriptedRuntime(says(ANSWERED), able())}
    async with house(loaded=policy(), attempts=attempts, **runtimes) as h:
        messages = [{"role": "user", "content": ASKED}]
        response = await post(h.gateway, body(messages=messages, stream=stream), **budget)
        assert response.headers["x-tidegate-target"] == "edge"
        (outcome,) = await h.until_settled(1)
        assert [each["cause"] for each in outcome["attempts"]] == ["first", cause]
        beside = beside_the_body(h.cloud) + beside_the_body(h.edge)
        assert not [canary for canary in (ASKED, HEADER, QUERY) if canary.lower() in beside]
    assert sinks.holding(*CANARIES) == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("scan", ["label", "mask", "stop"])
async def test_what_is_found_in_an_answer_is_in_no_sink(
    house: HouseFactory, sinks: Sinks, scan: str, stream: bool
) -> None:
    async def pays(request: Received) -> None:
        if not request.json.get("stream"):
            return await says(PAYS)(request)
        await request.head()
        for at in range(0, len(PAYS), 7):
            await request.chunk(event(content=PAYS[at : at + 7]))
        await request.chunk(event(finish_reason="stop") + DONE_EVENT)
        await request.end()

    runtimes = {"cloud": ScriptedRuntime(pays, able(window=8192)), "edge": ScriptedRuntime(pays, able())}
    async with house(loaded=policy(f"answers: {{scan: {scan}, tags: [pci, pii]}}"), **runtimes) as h:
        response = await post(h.gateway, body(stream=stream))
        assert ("[card withheld]" in response.text) == (scan == "mask")
        assert (response.status_code == 200) == (stream or scan != "stop")
        (outcome,) = await h.until_settled(1)
        assert outcome["answer_findings"].pop("card") == 1
    assert sinks.holding(*CANARIES, EMAIL, CARD) == []


async def names_it(request: Received) -> None:
    outputs = [{"name": "label", "shape": [1], "datatype": "BYTES", "data": [ASKED]}]
    await request.json_answer(200, {"model_name": ANSWERED, "outputs": outputs})


async def echoes_it(request: Received) -> None:
    await request.json_answer(500, {"error": request.body.decode()})


@pytest.mark.parametrize("answer", [names_it, echoes_it], ids=lambda answer: answer.__name__)
async def test_a_classifier_that_repeats_what_it_read_tells_it_nobody(
    house: HouseFactory, sinks: Sinks, answer: Answer
) -> None:
    async with ScriptedRuntime(answer) as model:
        classifier = ClassifierSettings(endpoint=model.endpoint, model="m", labels={"a": "pii", "b": "clean"})
        edge, cloud = ScriptedRuntime(says(ANSWERED), able()), ScriptedRuntime(report=able(window=8192))
        async with house(
            loaded=policy(), edge=edge, cloud=cloud, detectors=DetectorSettings(classifier=classifier)
        ) as h:
            response = await post(h.gateway, body())
            assert response.headers["x-tidegate-label"].startswith("restricted")
            assert ASKED.encode() in model.posts[0].body
            assert not h.cloud.posts
            assert HEADER.lower() not in beside_the_body(model)
    assert sinks.holding(*CANARIES) == []


BABBLES = """
import json, sys
print(json.dumps({"ready": True}), flush=True)
asked = sys.stdin.readline()
print(asked, file=sys.stderr, flush=True)
raise ValueError(asked)
"""


async def test_the_last_words_of_a_detectors_process_are_read_by_nobody(
    house: HouseFactory, sinks: Sinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = PresidioDetector(PresidioSettings(timeout_s=10.0), (sys.executable, "-c", BABBLES))
    monkeypatch.setattr(SecondTier, "from_settings", lambda *_: SecondTier([detector]))
    edge, cloud = ScriptedRuntime(says(ANSWERED), able()), ScriptedRuntime(report=able(window=8192))
    async with house(loaded=policy(), edge=edge, cloud=cloud) as h:
        await until(lambda: detector.worker.pid is not None)
        response = await post(h.gateway, body())
        assert response.headers["x-tidegate-label"].startswith("restricted")
        assert not h.cloud.posts
    assert sinks.holding(*CANARIES) == []


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/route/explain"])
async def test_a_request_for_which_there_is_no_place_is_not_repeated(
    house: HouseFactory, sinks: Sinks, path: str
) -> None:
    async with house(edge=ScriptedRuntime(never, able()), limits={"concurrent_requests": 1}) as h:
        inside = asyncio.create_task(h.gateway.chat(ASKED))
        await until(lambda: bool(h.edge.posts))
        refused = await post(h.gateway, body(), path)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
        assert ASKED not in refused.text + str(refused.headers)
        inside.cancel()
        await asyncio.gather(inside, return_exceptions=True)
        await h.until_settled(1)
    assert sinks.holding(*CANARIES) == []


@pytest.mark.parametrize("kind", ["busy", "nowhere"])
async def test_a_request_that_nobody_can_answer_is_not_repeated(house: HouseFactory, sinks: Sinks, kind: str) -> None:
    async def busy(request: Received) -> None:
        await request.json_answer(
            429, {"error": {"message": f"{ASKED} {ANSWERED}"}}, extra=f"retry-after: {ANSWERED}\r\n"
        )

    async with house(edge=ScriptedRuntime(busy, able()), cloud=ScriptedRuntime(busy, able(window=8192))) as h:
        if kind == "nowhere":
            await h.edge.stop()
            await h.cloud.stop()
        for stream in (False, True):
            refused = await post(h.gateway, body(stream=stream))
            assert refused.status_code in {429, 503}, refused.text
            assert ASKED not in str(refused.headers)
            assert ANSWERED not in str(refused.headers)
    assert sinks.holding(*CANARIES) == []
