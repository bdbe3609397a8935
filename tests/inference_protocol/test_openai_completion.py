from __future__ import annotations

import json
from typing import Any

import pytest

from inference_protocol.errors import ForbiddenField, InvalidField
from inference_protocol.openai_completion import MAX_PROMPTS, parse_completion, prompts
from inference_protocol.request import Needs, Task


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "prompt": "hi", **fields}).encode()


def test_a_plain_request_needs_nothing_and_gets_openais_sixteen_tokens() -> None:
    request = parse_completion(body())
    assert (request.task, request.model, request.output_cap, request.needs) == (Task.COMPLETION, "m", 16, Needs())
    assert request.logprobs is None
    assert parse_completion(body(max_tokens=0)).output_cap == 0


@pytest.mark.parametrize(
    ("prompt", "read"),
    [
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        ([1, 2], ((1, 2),)),
        ([[1, 2], [3]], ((1, 2), (3,))),
        (["a", [3]], ("a", (3,))),
    ],
)
def test_a_prompt_is_text_or_tokens_once_or_several_times(prompt: Any, read: tuple[Any, ...]) -> None:
    assert prompts({"prompt": prompt}) == read


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [""]}, "prompt[0]"),
        ({"prompt": [[]]}, "prompt[0]"),
        ({"prompt": [-1]}, "prompt[0]"),
        ({"prompt": [True]}, "prompt[0]"),
        ({"prompt": {"a": 1}}, "prompt"),
        ({"prompt": ["x"] * (MAX_PROMPTS + 1)}, "prompt"),
        ({"suffix": "end"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"echo": 1}, "echo"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"temperature": 3}, "temperature"),
        ({"stream_options": []}, "stream_options"),
    ],
)
def test_what_cannot_be_done_is_refused_by_its_field(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField) as caught:
        parse_completion(body(**fields))
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("fields", "needs"),
    [
        ({"logprobs": 0}, Needs(logprobs=True)),
        ({"n": 2, "best_of": 2}, Needs(n=2)),
        ({"structured_outputs": {"regex": "a"}}, Needs(schema=True)),
        ({"guided_regex": "a"}, Needs(schema=True)),
        ({"min_p": 0.1}, Needs(parameters=("min_p",))),
    ],
)
def test_what_a_completion_needs_is_read_from_its_fields(fields: dict[str, Any], needs: Needs) -> None:
    assert parse_completion(body(**fields)).needs == needs


def test_a_body_may_not_choose_where_it_goes() -> None:
    with pytest.raises(ForbiddenField):
        parse_completion(body(api_base="http://x"))
