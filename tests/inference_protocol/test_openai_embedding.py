from __future__ import annotations

from typing import Any

import orjson
import pytest

from inference_protocol.errors import ForbiddenField, InvalidField
from inference_protocol.openai_embedding import check_answer, inputs, parse_embedding
from inference_protocol.request import InferenceRequest, Task
from inference_protocol.text_parts import Uninspectable, UninspectableCause


def parsed(**fields: Any) -> InferenceRequest:
    return parse_embedding(orjson.dumps({"model": "m", "input": "a text", **fields}))


def test_a_request_for_vectors_generates_nothing() -> None:
    request = parsed(user="u-1", encoding_format="base64", unknown={"kept": 1})
    assert (request.task, request.model, request.output_cap, request.stream) == (Task.EMBEDDING, "m", 0, False)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("one", ("one",)),
        (["one", "two"], ("one", "two")),
        ([101, 7592], ((101, 7592),)),
        ([[101], [102, 103]], ((101,), (102, 103))),
        (["one", [101]], ("one", (101,))),
    ],
)
def test_an_input_is_a_text_several_or_their_tokens(given: Any, read: tuple[Any, ...]) -> None:
    assert inputs({"input": given}) == read


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": [[]]}, "input[0]"),
        ({"input": ["a", 3]}, "input[1]"),
        ({"input": [1, "a"]}, "input[0]"),
        ({"input": [-1]}, "input[0]"),
        ({"input": [True]}, "input[0]"),
        ({"input": {"text": "a"}}, "input"),
        ({"input": None}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"encoding_format": "hex"}, "encoding_format"),
        ({"encoding_format": 1}, "encoding_format"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": "8"}, "dimensions"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens"),
        ({"stream": True}, "stream"),
        ({"model": ""}, "model"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField) as refused:
        parsed(**fields)
    assert refused.value.param == param


def test_a_destination_is_refused() -> None:
    with pytest.raises(ForbiddenField):
        parsed(api_base="http://elsewhere.example")


def test_every_text_is_scanned_and_tokens_count_as_what_nobody_can_read() -> None:
    texts = {part.path: part.text for part in parsed(input=["one", "two"], user="jane").text_parts()}
    assert (texts["input[0]"], texts["input[1]"], texts["user"]) == ("one", "two", "jane")
    for tokens in ([101], [[101, 102]], ["text", [101]]):
        assert Uninspectable(UninspectableCause.BLOB) in [part.text for part in parsed(input=tokens).text_parts()]


@pytest.mark.parametrize(
    ("answer", "encoding"),
    [
        ({}, "float"),
        ({"data": [{"embedding": [0.1]}]}, "float"),
        ({"data": [{"embedding": [0.1]}, {"embedding": []}]}, "float"),
        ({"data": [{"embedding": [0.1]}, {"embedding": "zc3MPQ=="}]}, "float"),
        ({"data": [{"embedding": [0.1]}, 3]}, "float"),
        ({"data": [{"embedding": [0.1]}] * 3}, "base64"),
    ],
)
def test_an_answer_without_a_vector_for_each_input_is_none(answer: dict[str, Any], encoding: str) -> None:
    with pytest.raises(ValueError, match="vector"):
        check_answer(answer, parsed(input=["a", "b"], encoding_format=encoding))


def test_numbers_are_taken_where_base64_was_asked_for() -> None:
    rows = [{"embedding": [0.1]}, {"embedding": "zc3MPQ=="}]
    check_answer({"data": rows}, parsed(input=["a", "b"], encoding_format="base64"))
