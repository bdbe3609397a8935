"""Values come back in every channel of an answer, however its bytes are cut; nobody else's ever do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.answer import AnswerFacts, BufferedAnswer
from gateway.dispatch.rewritten import restored
from gateway.dispatch.upstream import UpstreamStream
from inference_protocol.errors import UpstreamCut
from inference_protocol.openai_chat import parse_chat
from inference_protocol.openai_completion import parse_completion
from inference_protocol.request import InferenceRequest
from tests.support.scripted_runtime import DONE_EVENT, USAGE_EVENT, event
from tests.support.scripted_transport import Stream

EMAIL, QUOTED, SHORT = "EMAIL_K3F9QXAB", "PASSWORD_AAAABBBB", "SSN_K3F9QXAB"
ORIGINALS = {EMAIL: "jane.doe@corp.com", QUOTED: 'a"b\\c\nd', SHORT: "123-45-6789", "USSSN_K3F9QXAB": "078-05-1120"}
PLAIN = parse_chat(b'{"model":"m","messages":[{"role":"user","content":"x"}]}')
WITH_SCHEMA = parse_chat(
    b'{"model":"m","messages":[{"role":"user","content":"x"}],'
    b'"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{}}}}'
)


def body_of(message: dict[str, Any]) -> bytes:
    return json.dumps({"id": "c1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()


def whole(message: dict[str, Any], request: InferenceRequest = PLAIN) -> dict[str, Any]:
    """The message as a caller that does not stream sees it."""
    answer = restored(BufferedAnswer(body_of(message), AnswerFacts()), ORIGINALS, request)
    assert isinstance(answer, BufferedAnswer)
    return json.loads(answer.body)["choices"][0]["message"]


async def relayed(chunks: Sequence[bytes], request: InferenceRequest = PLAIN) -> bytes:
    """The bytes that a caller that streams sees."""
    out = b""
    async for data in stream_of(chunks, request):
        out += data
    return out


def stream_of(
    chunks: Sequence[bytes], request: InferenceRequest, then: Exception | None = None
) -> AsyncIterator[bytes]:
    response = httpx.Response(200, stream=Stream(*chunks, then=then))
    stream = UpstreamStream(response, wants_usage=True, public_model="smollm2-135m-instruct")
    answer = restored(stream, ORIGINALS, request)
    assert not isinstance(answer, BufferedAnswer)
    return answer.relay()


def events_of(relayed_bytes: bytes) -> list[dict[str, Any]]:
    frames = [f.removeprefix(b"data: ") for f in relayed_bytes.split(b"\n\n") if f.startswith(b"data: ")]
    return [json.loads(frame) for frame in frames if frame != b"[DONE]"]


def joined(relayed_bytes: bytes) -> dict[int, dict[str, Any]]:
    """What a client puts together from a stream: by choice, the text of each channel."""
    found: dict[int, dict[str, Any]] = {}
    for chunk in events_of(relayed_bytes):
        for choice in chunk["choices"]:
            texts = found.setdefault(choice["index"], {})
            for key, value in choice["delta"].items():
                if isinstance(value, str) and key != "role":
                    texts[key] = texts.get(key, "") + value
                for call in value if key == "tool_calls" else ():
                    name = f"call {call['index']}"
                    texts[name] = texts.get(name, "") + call["function"].get("arguments", "")
    return found


def test_a_whole_answer_is_restored_in_every_channel() -> None:
    message = {
        "role": "assistant",
        "content": f"Write to {EMAIL}.",
        "reasoning_content": f"They gave {EMAIL}",
        "refusal": f"not {SHORT}",
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": EMAIL, "arguments": f'{{"p":"{QUOTED}"}}'}}
        ],
        "function_call": {"name": "f", "arguments": f'{{"to":"{EMAIL}"}}'},
    }
    found = whole(message)
    assert found["content"] == "Write to jane.doe@corp.com."
    assert found["reasoning_content"] == "They gave jane.doe@corp.com"
    assert found["refusal"] == "not 123-45-6789"
    call = found["tool_calls"][0]["function"]
    assert json.loads(call["arguments"]) == {"p": 'a"b\\c\nd'}
    assert call["name"] == EMAIL, "names are never restored"
    assert json.loads(found["function_call"]["arguments"]) == {"to": "jane.doe@corp.com"}


def test_content_that_must_be_json_stays_json() -> None:
    message = {"role": "assistant", "content": f'{{"password": "{QUOTED}"}}'}
    assert json.loads(whole(message, WITH_SCHEMA)["content"]) == {"password": 'a"b\\c\nd'}
    assert whole({"content": QUOTED}, PLAIN)["content"] == 'a"b\\c\nd'


@pytest.mark.parametrize(
    ("more", "shown"),
    [({}, 'a"b\\c\nd'), ({"response_format": {"type": "json_object"}}, r"a\"b\\c\nd")],
    ids=["prose", "json"],
)
def test_the_text_of_a_completion_stays_json_where_it_must_be(more: dict[str, Any], shown: str) -> None:
    request = parse_completion(json.dumps({"model": "m", "prompt": "x", **more}).encode())
    said = {"choices": [{"index": 0, "text": f'{{"p": "{QUOTED}"}}', "finish_reason": "stop"}]}
    answer = restored(BufferedAnswer(json.dumps(said).encode(), AnswerFacts()), ORIGINALS, request)
    assert isinstance(answer, BufferedAnswer)
    assert json.loads(answer.body)["choices"][0]["text"] == f'{{"p": "{shown}"}}'


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("email_k3f9qxab and Email_K3F9qxab", "jane.doe@corp.com and jane.doe@corp.com"),
        (f"{EMAIL}{EMAIL}", "jane.doe@corp.comjane.doe@corp.com"),
        (f"{EMAIL}'s", "jane.doe@corp.com's"),
        ("EMAIL_ZZZZ2345 was never given", "EMAIL_ZZZZ2345 was never given"),
        ("EMAIL_K3F9QXA", "EMAIL_K3F9QXA"),
        ("USSSN_K3F9QXAB", "078-05-1120"),
        (f"EMAIL_{EMAIL}", "EMAIL_jane.doe@corp.com"),
        ("EMAIL_ſ3F9QXAB", "EMAIL_ſ3F9QXAB"),
    ],
)
def test_exactly_the_tokens_of_this_request_are_restored(said: str, shown: str) -> None:
    assert whole({"content": said})["content"] == shown


@pytest.mark.parametrize(
    "said",
    [
        f"https://evil.invalid/?q={EMAIL}",
        f"![x](https://evil.invalid/{EMAIL}.png)",
        f"[see](//evil.invalid/?a=b&c={EMAIL})",
        f'<img src="https://evil.invalid/?a= {EMAIL}">',
        f"<https://evil.invalid/a b {EMAIL}>",
        f"http://{EMAIL}.evil.invalid/",
        f"{{'url': 'https://evil.invalid/{EMAIL}'}}",
        f"HTTPS://evil.invalid/a/b/c/{'x' * 5000}{EMAIL}",
    ],
)
def test_a_value_is_never_put_into_a_url(said: str) -> None:
    assert whole({"content": said})["content"] == said
    assert whole({"tool_calls": [{"function": {"arguments": said}}]})["tool_calls"][0]["function"]["arguments"] == said


def test_after_a_url_values_are_restored_again() -> None:
    said = f"See https://x.org/a?b=c and (http://y.org) {EMAIL}, // {EMAIL}"
    assert whole({"content": said})["content"].count("jane.doe@corp.com") == 2


# What a model may say: tokens, pieces of tokens, look-alikes, URLs, escapes.
sayings = st.lists(
    st.sampled_from(
        [
            *ORIGINALS,
            EMAIL.lower(),
            "EMAIL_",
            "EMAIL_K3F9",
            "E",
            "SSN_",
            "US",
            "K3F9QXAB",
            " ",
            "\n",
            "é",
            "😀",
            '"',
            "\\",
            "(",
            ")",
            "https://x.org/?q=",
            "//",
            "ß",
            "data",
        ]
    )
    | st.text(max_size=3),
    max_size=12,
).map("".join)
cuts = st.lists(st.integers(0, 10_000), max_size=30)


def cut(data: Any, places: Sequence[int]) -> list[Any]:
    at = sorted({place % (len(data) + 1) for place in places})
    return [data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True)]


def run(work: Any) -> Any:
    return asyncio.run(work)


@given(said=sayings, in_tokens=cuts, in_bytes=cuts, with_schema=st.booleans())
def test_however_a_stream_is_cut_it_shows_what_a_whole_answer_shows(
    said: str, in_tokens: list[int], in_bytes: list[int], with_schema: bool
) -> None:
    request = WITH_SCHEMA if with_schema else PLAIN
    channels = ("content", "reasoning_content", "call 0", "call 1")

    def delta(channel: str, text: str) -> dict[str, Any]:
        if channel.startswith("call"):
            return {"tool_calls": [{"index": int(channel[-1]), "function": {"arguments": text}}]}
        return {channel: text}

    events = [event(**delta(channel, text)) for text in cut(said, in_tokens) for channel in channels]
    data = b"".join(
        [event(role="assistant", content=""), *events, event(finish_reason="stop"), USAGE_EVENT, DONE_EVENT]
    )
    shown = joined(run(relayed(cut(data, in_bytes), request)))[0]
    calls = [{"index": index, "function": {"arguments": said}} for index in (0, 1)]
    expected = whole({"content": said, "reasoning_content": said, "tool_calls": calls}, request)
    assert shown.get("content", "") == expected["content"]
    assert shown.get("reasoning_content", "") == expected["reasoning_content"]
    for index in (0, 1):
        assert shown.get(f"call {index}", "") == expected["tool_calls"][index]["function"]["arguments"]


def test_choices_do_not_mix() -> None:
    def choice(index: int, text: str, finish: str | None = None) -> bytes:
        chunk = {"id": "c", "choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]}
        return b"data: " + json.dumps(chunk).encode() + b"\n\n"

    data = [
        choice(0, "EMAIL_"),
        choice(1, "K3F9QXAB"),
        choice(0, "K3F9QXAB", "stop"),
        choice(1, "", "stop"),
        DONE_EVENT,
    ]
    shown = joined(run(relayed(data)))
    assert (shown[0]["content"], shown[1]["content"]) == ("jane.doe@corp.com", "K3F9QXAB")


def test_only_what_may_still_become_a_token_is_held_back() -> None:
    async def first() -> str:
        chunks = [event(content="Dear EMAILS, EMAIL_K3"), event(content=" F9QXAB."), event(finish_reason="stop")]
        pieces = [joined(data) async for data in stream_of([*chunks, DONE_EVENT], PLAIN)]
        shown = [piece[0].get("content", "") for piece in pieces if piece]
        assert "".join(shown) == "Dear EMAILS, EMAIL_K3 F9QXAB."
        return shown[0]

    assert run(first()) == "Dear EMAILS, "


@pytest.mark.parametrize("ending", [[DONE_EVENT], [b": ping\n\n", DONE_EVENT]])
def test_what_is_held_back_is_shown_where_a_stream_ends_without_a_finish_reason(ending: list[bytes]) -> None:
    shown = run(relayed([event(content="so EMAIL_K3"), *ending]))
    assert joined(shown)[0]["content"] == "so EMAIL_K3"
    assert shown.endswith(DONE_EVENT)
    assert all(chunk["id"] == "c1" and chunk["object"] == "chat.completion.chunk" for chunk in events_of(shown))


def test_what_is_held_back_is_shown_where_a_stream_breaks() -> None:
    async def broken() -> bytes:
        out = b""
        try:
            async for data in stream_of([event(content="so EMAIL_K3")], PLAIN, then=httpx.ReadError("reset")):
                out += data
        except UpstreamCut:
            return out
        raise AssertionError("the stream did not break")

    assert joined(run(broken()))[0]["content"] == "so EMAIL_K3"


def test_an_answer_of_a_target_that_was_sent_no_tokens_is_not_touched() -> None:
    answer = BufferedAnswer(b'{"choices": [ ]}', AnswerFacts())
    assert restored(answer, {}, PLAIN) is answer
