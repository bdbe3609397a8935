"""What answers must hold: the shape clients read, and each parameter honoured or refused, never passed over."""
# ruff: noqa: D103  # the name of a case is the rule that it looks at

from __future__ import annotations

import json
from typing import Any

from gateway.cli.conformance.findings import NotApplicable, Violation, error_of, expect
from gateway.cli.conformance.wire import Gateway, Reply

_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
_CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'}}
_SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["answer"],
    "additionalProperties": False,
}


def an_answer_has_the_shape_of_a_chat_completion(gateway: Gateway) -> None:
    answer = gateway.answer()
    for name in ("id", "object", "created", "model", "choices", "usage"):
        expect(name in answer, f"it has no `{name}`")
    expect(answer["object"] == "chat.completion", f"`object` is {answer['object']!r}")
    [choice] = answer["choices"]
    expect(choice["message"]["role"] == "assistant", "the role of its message is not assistant")
    expect(bool(choice.get("finish_reason")), "its choice has no `finish_reason`")


def the_counts_of_an_answer_add_up(gateway: Gateway) -> None:
    usage = gateway.answer().get("usage") or {}
    parts = usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)
    expect(0 < parts == usage.get("total_tokens"), f"`usage` is {usage}")


def one_token_at_most_is_one_token(gateway: Gateway) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        reply = gateway.ask(**({"max_tokens": ...} | {name: 1}))
        if (answer := _answered_or_refused(reply)) is not None:
            used = (answer.get("usage") or {}).get("completion_tokens")
            expect(used is None or used <= 1, f"with {name} of one the answer has {used} tokens")


def a_stop_word_ends_the_answer_and_is_no_part_of_it(gateway: Gateway) -> None:
    words = _text(gateway.answer(temperature=0)).split()
    if len(words) < 2:
        raise NotApplicable("the answer to look for a stop word in has one word")
    reply = gateway.ask(temperature=0, stop=[words[1]])
    if (answer := _answered_or_refused(reply)) is not None:
        expect(words[1] not in _text(answer), "it stands in the answer")


def several_answers_are_given_or_refused(gateway: Gateway) -> None:
    if (answer := _answered_or_refused(gateway.ask(n=2))) is not None:
        expect(
            [c.get("index") for c in answer["choices"]] == [0, 1], f"{len(answer['choices'])} come where 2 were asked"
        )


def a_tool_that_must_be_called_is_called_or_refused(gateway: Gateway) -> None:
    ask = "What is the weather in Oslo?"
    fields: dict[str, Any] = {"messages": [{"role": "user", "content": ask}], "tools": [_TOOL], "max_tokens": 128}
    answer = _answered_or_refused(gateway.ask(tool_choice="required", **fields))
    if answer is None:
        return
    choice = answer["choices"][0]
    calls = choice["message"].get("tool_calls") or []
    if choice.get("finish_reason") == "length":
        raise NotApplicable("the answer was cut before a call was whole")
    expect(bool(calls), "the answer is prose")
    for call in calls:
        expect(call["function"]["name"] == "get_weather", "a tool is called that was not offered")
        _object_in(call["function"]["arguments"], "the arguments of the call")


def a_schema_is_kept_or_refused(gateway: Gateway) -> None:
    shape = {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": _SCHEMA}}
    found = _object_answer(gateway, shape)
    if found is not None:
        expect(set(found) == {"answer"} and found["answer"] in ("yes", "no"), f"the answer does not fit it: {found}")


def a_wish_for_json_is_kept_or_refused(gateway: Gateway) -> None:
    _object_answer(gateway, {"type": "json_object"})


def a_shape_that_nobody_knows_is_refused(gateway: Gateway) -> None:
    reply = gateway.ask(response_format={"type": "tidy"})
    error_of(reply.status, reply.json())


def log_probabilities_are_given_or_refused(gateway: Gateway) -> None:
    answer = _answered_or_refused(gateway.ask(logprobs=True, top_logprobs=2))
    if answer is not None:
        found = (answer["choices"][0].get("logprobs") or {}).get("content")
        expect(bool(found), "the answer has none")


def a_field_that_nobody_knows_passes_or_is_refused_by_name(gateway: Gateway) -> None:
    reply = gateway.ask(x_conformance_probe=True)
    if reply.status != 200:
        error = error_of(reply.status, reply.json())
        expect(reply.status < 500, f"it is answered with {reply.status}")
        expect("x_conformance_probe" in json.dumps(error), "the refusal does not name it")


def a_turn_that_only_calls_tools_needs_no_content(gateway: Gateway) -> None:
    for content in ({"content": None}, {}, {"content": ""}):
        history = [
            {"role": "user", "content": "What is the weather in Oslo?"},
            {"role": "assistant", **content, "tool_calls": [_CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "Rain."},
        ]
        reply = gateway.ask(messages=history)
        if reply.status != 200:
            error = error_of(reply.status, reply.json())
            expect(reply.status < 500, f"with {content} it is answered with {reply.status}")
            expect("content" not in str(error.get("param")), f"with {content} it is refused for its content")


def _object_answer(gateway: Gateway, shape: dict[str, Any]) -> dict[str, Any] | None:
    question = [{"role": "user", "content": 'Is water wet? Reply as JSON: {"answer": "yes"} or {"answer": "no"}.'}]
    answer = _answered_or_refused(gateway.ask(messages=question, response_format=shape, max_tokens=128))
    if answer is None:
        return None
    if answer["choices"][0].get("finish_reason") == "length":
        raise NotApplicable("the answer was cut before it was whole")
    return _object_in(_text(answer), "the answer")


def _object_in(text: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise Violation(f"{what} is no JSON: {text[:60]!r}") from None
    if not isinstance(found, dict):
        raise Violation(f"{what} is no JSON object: {text[:60]!r}")
    return found


def _text(answer: Any) -> str:
    return answer["choices"][0]["message"].get("content") or ""


def _answered_or_refused(reply: Reply) -> Any:
    """The document of an answer, or `None` where the caller was told plainly that there is none."""
    if reply.status == 200:
        return reply.json()
    expect(reply.status < 500, f"it is answered with {reply.status}")
    error_of(reply.status, reply.json())
    return None


CASES = (
    an_answer_has_the_shape_of_a_chat_completion,
    the_counts_of_an_answer_add_up,
    one_token_at_most_is_one_token,
    a_stop_word_ends_the_answer_and_is_no_part_of_it,
    several_answers_are_given_or_refused,
    a_tool_that_must_be_called_is_called_or_refused,
    a_schema_is_kept_or_refused,
    a_wish_for_json_is_kept_or_refused,
    a_shape_that_nobody_knows_is_refused,
    log_probabilities_are_given_or_refused,
    a_field_that_nobody_knows_passes_or_is_refused_by_name,
    a_turn_that_only_calls_tools_needs_no_content,
)
