"""Answers that the policy has read, through the whole gateway: what the caller gets, and what is written down of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.loader import load_text
from tests.gateway.conftest import HouseFactory
from tests.support.scripted_runtime import ScriptedRuntime, says

CARD = "4111 1111 1111 1111"
SAID = f"She pays with {CARD} and then she goes home."


def policy(scan: str) -> LoadedPolicy:
    return load_text(
        f"""
apiVersion: tidegate/v1
name: reading
defaults: {{class: public}}
answers: {{scan: {scan}, tags: [pci]}}
targets:
  edge: {{kind: edge, clearance: restricted}}
""",
        "reading.yaml",
    )


def files_below(folder: Path) -> str:
    return "".join(path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("stream", [False, True])
async def test_a_masked_answer_is_whole_and_its_kinds_are_written_down(house: HouseFactory, stream: bool) -> None:
    async with house(edge=ScriptedRuntime(says(SAID)), loaded=policy("mask")) as h:
        response = await h.gateway.chat(stream=stream)
        assert response.status_code == 200
        assert "[card withheld]" in response.text
        assert "1111" not in response.text
        assert '"tidegate":{"findings":{"card":1}}' in response.text
        (outcome,) = await h.until_settled(1)
        assert (outcome["answer_findings"], outcome["outcome"]) == ({"card": 1}, "ok")
    written = files_below(h.gateway.state_dir)
    assert "tidegate.answer.findings" in written
    assert CARD not in written


async def test_a_stopped_stream_ends_with_the_error_and_without_done(house: HouseFactory) -> None:
    async with house(edge=ScriptedRuntime(says(SAID)), loaded=policy("stop")) as h:
        response = await h.gateway.chat(stream=True)
        *_, last, _ = response.text.split("\n\n")
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "answer_withheld"
        assert "[DONE]" not in response.text
        assert "1111" not in response.text
        (outcome,) = await h.until_settled(1)
        assert (outcome["error"], outcome["answer_findings"]) == ("answer_withheld", {"card": 1})
    assert CARD not in files_below(h.gateway.state_dir)


async def test_a_stopped_answer_that_is_not_streamed_is_the_error_alone_and_no_other_target_is_asked(
    house: HouseFactory,
) -> None:
    async with house(edge=ScriptedRuntime(says(SAID)), loaded=policy("stop")) as h:
        response = await h.gateway.chat()
        assert response.status_code == 403
        assert response.json()["error"]["code"] == "answer_withheld"
        assert "1111" not in response.text
        assert len(h.edge.posts) == 1
        (outcome,) = await h.until_settled(1)
        assert (outcome["error"], outcome["answer_findings"]) == ("answer_withheld", {"card": 1})


async def test_by_default_nobody_reads_answers(house: HouseFactory) -> None:
    async with house(edge=ScriptedRuntime(says(SAID)), loaded=policy("off")) as h:
        assert CARD in (await h.gateway.chat()).text
