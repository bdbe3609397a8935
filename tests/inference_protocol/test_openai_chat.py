from __future__ import annotations

import json
from typing import Any

import pytest

from inference_protocol.errors import ForbiddenField, InvalidField
from inference_protocol.openai_body import FORBIDDEN_FIELDS
from inference_protocol.openai_chat import MAX_MESSAGES, parse_chat
from inference_protocol.request import Needs, Task

USER = {"role": "user", "content": "hi"}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [USER], **fields}).encode()


def test_a_plain_request_needs_nothing_and_keeps_its_bytes() -> None:
    raw = body()
    request = parse_chat(raw)
    assert (request.task, request.model) == (Task.CHAT, "m")
    assert (request.stream, request.wants_usage, request.output_cap, request.needs) == (False, False, None, Needs())
    assert request.raw is raw


def test_fields_that_nobody_knows_pass_untouched() -> None:
    assert parse_chat(body(brand_new={"a": [1]})).tree["brand_new"] == {"a": [1]}


@pytest.mark.parametrize(
    ("fields", "needs"),
    [
        ({"tools": [{"type": "function"}]}, Needs(tools=True)),
        ({"tools": [{"type": "function"}], "tool_choice": "none"}, Needs()),
        ({"tools": []}, Needs()),
        ({"response_format": {"type": "json_schema"}}, Needs(schema=True)),
        ({"response_format": {"type": "text"}}, Needs()),
        ({"logprobs": True, "n": 3}, Needs(logprobs=True, n=3)),
        ({"top_logprobs": 2}, Needs(logprobs=True)),
        ({"min_p": 0.1, "logit_bias": {"5": -100}}, Needs(parameters=("logit_bias", "min_p"))),
        ({"presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "repetition_penalty": 1.0}, Needs()),
        ({"messages": [{"role": "tool", "content": "4", "tool_call_id": "c"}]}, Needs(tools=True)),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]}, Needs(tools=True)),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            Needs(images=True),
        ),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}, Needs(audio=True)),
    ],
)
def test_what_a_request_needs_is_read_from_its_fields(fields: dict[str, Any], needs: Needs) -> None:
    assert parse_chat(body(**fields)).needs == needs


@pytest.mark.parametrize(
    ("fields", "cap"),
    [({"max_tokens": 5}, 5), ({"max_completion_tokens": 7}, 7), ({"max_tokens": 5, "max_completion_tokens": 0}, 0)],
)
def test_the_newer_name_of_the_output_cap_wins(fields: dict[str, Any], cap: int) -> None:
    assert parse_chat(body(**fields)).output_cap == cap


def test_streaming_and_its_usage_are_read() -> None:
    request = parse_chat(body(stream=True, stream_options={"include_usage": True}))
    assert request.stream
    assert request.wants_usage


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": ""}, "model"),
        ({"model": 3}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": [USER] * (MAX_MESSAGES + 1)}, "messages"),
        ({"messages": [USER, "hi"]}, "messages[1]"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": {}, "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": ["text"]}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": True}, "stream_options"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"tools": {}}, "tools"),
        ({"response_format": "json"}, "response_format"),
        ({"logprobs": 1}, "logprobs"),
    ],
)
def test_a_field_that_cannot_be_right_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField) as caught:
        parse_chat(body(**fields))
    assert caught.value.param == param


def test_an_assistant_turn_may_have_no_content() -> None:
    parse_chat(body(messages=[USER, {"role": "assistant", "tool_calls": []}, USER]))


@pytest.mark.parametrize("name", [*sorted(FORBIDDEN_FIELDS), "API_BASE"])
def test_a_body_may_not_choose_where_it_is_sent(name: str) -> None:
    with pytest.raises(ForbiddenField, match=name):
        parse_chat(body(**{name: "http://169.254.169.254/"}))
