"""What a target answers is read, where the policy says so, and judged alike however it comes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.answer import AnswerFacts, BufferedAnswer
from gateway.dispatch.rewritten import restored, scanned
from gateway.dispatch.upstream import UpstreamStream
from inference_protocol.errors import AnswerWithheld, TidegateError, UpstreamCut
from inference_protocol.openai_chat import parse_chat
from inference_protocol.text_parts import UninspectableCause
from routing_policies.policy.model import Answers, AnswerScanning
from routing_policies.signals.label import ScanResult
from routing_policies.signals.scanner import Scanner, build_scanner
from tests.support.scripted_runtime import DONE_EVENT, MODEL, event
from tests.support.scripted_transport import Stream

SCANNER = build_scanner()
PLAIN = parse_chat(b'{"model":"m","messages":[{"role":"user","content":"x"}]}')
LEAK = "Sure, write to jane@corp.com or pay with 4111 1111 1111 1111 today, she will be glad to help."
MASKED = "Sure, write to [email withheld] or pay with [card withheld] today, she will be glad to help."
WORDS = st.sampled_from(
    [
        "the tide ",
        "turns and ",
        "jane@",
        "corp.com ",
        "4111 1111 ",
        "1111 1111",
        " it is so, ",
        "DOB: ",
        "1985-03-12 ",
        "{",
        '":"',
    ]
)


def rules(scan: AnswerScanning, *tags: Any) -> Answers:
    return Answers(scan=scan, tags=tags) if tags else Answers(scan=scan)


async def whole(message: dict[str, Any], asked: Answers) -> tuple[dict[str, Any], Counter[str]]:
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": {"content": [{"token": "jane"}]}}
    answer = BufferedAnswer(json.dumps({"id": "c1", "choices": [choice]}).encode(), AnswerFacts())
    shown = await scanned(answer, asked, SCANNER)
    assert isinstance(shown, BufferedAnswer)
    return json.loads(shown.body), shown.facts.findings


async def streamed(
    chunks: Sequence[bytes], asked: Answers, then: Exception | None = None
) -> tuple[bytes, Counter[str]]:
    """What reaches the caller, whatever it ends with."""
    stream = UpstreamStream(
        httpx.Response(200, stream=Stream(*chunks, then=then)), wants_usage=True, public_model=MODEL
    )
    answer = await scanned(stream, asked, SCANNER)
    assert not isinstance(answer, BufferedAnswer)
    out = b""
    try:
        async for data in answer.relay():
            out += data
    except TidegateError as exc:
        out += f"!{exc.code}".encode()
    return out, answer.facts.findings


def text_of(out: bytes, field: str = "content") -> str:
    frames = [json.loads(f[6:]) for f in out.split(b"\n\n") if f.startswith(b"data: {")]
    deltas = [choice["delta"] for frame in frames for choice in frame["choices"]]
    if field == "arguments":
        deltas = [call["function"] for delta in deltas for call in delta.get("tool_calls", ())]
    return "".join(delta.get(field) or "" for delta in deltas)


def pieces(text: str, cuts: Sequence[int] = ()) -> list[str]:
    ends = [0, *sorted(at % (len(text) + 1) for at in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(ends)]


def stream_of(texts: Sequence[str], **other: Any) -> list[bytes]:
    return [*(event(content=text, **other) for text in texts), event(finish_reason="stop"), DONE_EVENT]


async def test_by_default_an_answer_passes_as_it_came() -> None:
    answer = BufferedAnswer(b"not even JSON", AnswerFacts())
    assert await scanned(answer, Answers(), SCANNER) is answer


async def test_masked_values_are_replaced_and_named_at_the_end() -> None:
    asked = rules(AnswerScanning.MASK)
    body, counts = await whole({"role": "assistant", "content": LEAK}, asked)
    assert body["choices"][0]["message"]["content"] == MASKED
    assert body["tidegate"] == {"findings": {"card": 1, "email": 1}}
    assert body["choices"][0]["logprobs"] is None, "they hold the text once more"
    out, streamed_counts = await streamed(
        stream_of(LEAK.split(" ")[:1] + [f" {w}" for w in LEAK.split(" ")[1:]]), asked
    )
    assert text_of(out) == MASKED
    assert counts == streamed_counts == {"card": 1, "email": 1}
    *_, last, done, _ = out.split(b"\n\n")
    assert json.loads(last[6:])["tidegate"] == {"findings": {"card": 1, "email": 1}}
    assert done == b"data: [DONE]"


async def test_labelled_answers_stay_as_they_are_and_say_what_they_hold() -> None:
    asked = rules(AnswerScanning.LABEL)
    body, _ = await whole({"role": "assistant", "content": LEAK}, asked)
    assert body["choices"][0]["message"]["content"] == LEAK
    assert body["tidegate"] == {"findings": {"card": 1, "email": 1}}
    out, _ = await streamed(stream_of([LEAK]), asked)
    assert text_of(out) == LEAK
    assert b'"tidegate":{"findings":{"card":1,"email":1}}' in out


async def test_a_clean_answer_says_nothing_of_it() -> None:
    for mode in (AnswerScanning.LABEL, AnswerScanning.MASK, AnswerScanning.STOP):
        body, counts = await whole({"role": "assistant", "content": "All is well."}, rules(mode))
        assert "tidegate" not in body
        assert not counts
        out, _ = await streamed(stream_of(["All ", "is well."]), rules(mode))
        assert text_of(out) == "All is well."
        assert b"tidegate" not in out


async def test_a_stopped_answer_ends_before_the_value_and_without_done() -> None:
    asked = rules(AnswerScanning.STOP)
    with pytest.raises(AnswerWithheld, match="email"):
        await whole({"role": "assistant", "content": LEAK}, asked)
    out, counts = await streamed(stream_of(list(LEAK)), asked)
    assert text_of(out) == "Sure, write to "
    assert out.endswith(b"!answer_withheld")
    assert b"[DONE]" not in out
    assert counts["email"] == 1


async def test_only_the_tags_that_the_policy_names_count() -> None:
    body, _ = await whole({"role": "assistant", "content": LEAK}, rules(AnswerScanning.MASK, "pci"))
    assert "jane@corp.com" in body["choices"][0]["message"]["content"]
    assert "[card withheld]" in body["choices"][0]["message"]["content"]


async def test_every_channel_is_read() -> None:
    asked = rules(AnswerScanning.MASK)
    call = {"id": "c", "type": "function", "function": {"name": "send", "arguments": '{"to":"jane@corp.com"}'}}
    message = {"content": "ok", "reasoning_content": "jane@corp.com", "refusal": "jane@corp.com", "tool_calls": [call]}
    body, _ = await whole(message, asked)
    assert "jane@corp.com" not in json.dumps(body)
    assert json.loads(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]) == {
        "to": "[email withheld]"
    }
    deltas = [{"index": 0, "function": {"arguments": piece}} for piece in pieces('{"to":"jane@corp.com"}', [9, 12, 15])]
    chunks = [event(tool_calls=[delta]) for delta in deltas]
    out, _ = await streamed([*chunks, event(finish_reason="tool_calls"), DONE_EVENT], asked)
    assert text_of(out, "arguments") == '{"to":"[email withheld]"}'


async def test_a_completion_is_read_too() -> None:
    asked = rules(AnswerScanning.MASK)
    answer = BufferedAnswer(json.dumps({"choices": [{"index": 0, "text": LEAK}]}).encode(), AnswerFacts())
    shown = await scanned(answer, asked, SCANNER)
    assert isinstance(shown, BufferedAnswer)
    assert json.loads(shown.body)["choices"][0]["text"] == MASKED


async def test_an_answer_that_breaks_off_shows_what_was_held_back_and_still_nothing_that_is_withheld() -> None:
    chunks = [event(content="Sure, it is 4111 1111 1111"), event(content=" 1111")]
    out, _ = await streamed(chunks, rules(AnswerScanning.MASK), UpstreamCut("gone"))
    assert text_of(out) == "Sure, it is [card withheld]"
    assert out.endswith(b"!upstream_cut")
    out, _ = await streamed(chunks, rules(AnswerScanning.STOP), UpstreamCut("gone"))
    assert text_of(out) == "Sure, it is "
    assert out.endswith(b"!answer_withheld")


async def test_values_that_the_caller_sent_come_back_unmasked() -> None:
    text = "EMAIL_K3F9QXAB wrote to bob@corp.com, and all of them were glad."
    answer = BufferedAnswer(
        json.dumps({"choices": [{"index": 0, "message": {"content": text}}]}).encode(), AnswerFacts()
    )
    shown = restored(
        await scanned(answer, rules(AnswerScanning.MASK), SCANNER), {"EMAIL_K3F9QXAB": "jane@corp.com"}, PLAIN
    )
    assert isinstance(shown, BufferedAnswer)
    said = json.loads(shown.body)["choices"][0]["message"]["content"]
    assert said == "jane@corp.com wrote to [email withheld], and all of them were glad."


async def test_what_cannot_be_judged_counts_as_found(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = ScanResult(causes=frozenset({UninspectableCause.DETECTOR_ERROR}))
    monkeypatch.setattr(Scanner, "scan", lambda *_: failed)
    body, counts = await whole({"content": "It is 12 and it is well and calm so far."}, rules(AnswerScanning.MASK))
    assert body["choices"][0]["message"]["content"] == "It is [uninspected withheld]so far."
    assert counts == {"uninspected": 1}


async def test_what_never_ends_is_read_within_a_bound_and_a_value_on_the_bound_is_found() -> None:
    for lead in (4000, 4080, 4095, 4100, 8190):
        text = "7 " * (lead // 2) + "4111111111111111 " + "7 " * 3000
        body, counts = await whole({"content": text}, rules(AnswerScanning.MASK))
        assert counts == {"card": 1}, lead
        out, streamed_counts = await streamed(stream_of(pieces(text, range(0, 10_000, 97))), rules(AnswerScanning.MASK))
        assert streamed_counts == counts
        assert text_of(out) == body["choices"][0]["message"]["content"]


@given(st.lists(WORDS, max_size=30).map("".join), st.lists(st.integers(0, 400), max_size=10), st.booleans())
async def test_any_chunking_of_any_answer_equals_the_one_that_came_whole(
    text: str, cuts: list[int], by_byte: bool
) -> None:
    for mode in (AnswerScanning.LABEL, AnswerScanning.MASK, AnswerScanning.STOP):
        chunks = stream_of(pieces(text, cuts))
        if by_byte:
            joined = b"".join(chunks)
            chunks = [joined[at : at + 7] for at in range(0, len(joined), 7)]
        out, counts = await streamed(chunks, rules(mode))
        try:
            body, whole_counts = await whole({"content": text}, rules(mode))
        except AnswerWithheld:
            assert out.endswith(b"!answer_withheld")
            continue
        assert text_of(out) == body["choices"][0]["message"]["content"]
        assert counts == whole_counts
        assert out.endswith(DONE_EVENT)
