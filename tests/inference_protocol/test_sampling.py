from __future__ import annotations

from typing import Any

import pytest

from inference_protocol.errors import InvalidField
from inference_protocol.sampling import MAX_STOP_CHARS, MAX_STOP_STRINGS, Sampling


def test_absent_and_null_parameters_are_openais_defaults() -> None:
    nothing = Sampling.from_tree({})
    assert nothing == Sampling(temperature=1.0, top_p=1.0, top_k=0, seed=None, stop=())
    assert Sampling.from_tree(dict.fromkeys(("temperature", "top_p", "top_k", "seed", "stop"))) == nothing


def test_parameters_are_taken_over() -> None:
    tree = {"temperature": 0, "top_p": 0.5, "top_k": 40, "seed": -3, "stop": ["a", "b"]}
    assert Sampling.from_tree(tree) == Sampling(temperature=0.0, top_p=0.5, top_k=40, seed=-3, stop=("a", "b"))


def test_one_stop_string_needs_no_list() -> None:
    assert Sampling.from_tree({"stop": "\n"}).stop == ("\n",)


def test_a_top_p_of_zero_keeps_only_the_likeliest_token() -> None:
    assert 0.0 < Sampling.from_tree({"top_p": 0}).top_p < 1e-6


def test_a_top_k_of_minus_one_keeps_all_tokens() -> None:
    assert Sampling.from_tree({"top_k": -1}).top_k == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("temperature", "1"),
        ("temperature", True),
        ("temperature", float("inf")),
        ("temperature", float("nan")),
        ("temperature", 10**400),
        ("top_p", 1.01),
        ("top_k", -2),
        ("top_k", 1.0),
        ("seed", 1 << 63),
        ("seed", False),
        ("stop", 3),
        ("stop", ["x"] * (MAX_STOP_STRINGS + 1)),
    ],
)
def test_a_parameter_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidField) as caught:
        Sampling.from_tree({name: value})
    assert caught.value.param == name


@pytest.mark.parametrize("stop", ["", "x" * (MAX_STOP_CHARS + 1), 3])
def test_a_stop_string_that_cannot_be_one_is_refused_by_its_index(stop: Any) -> None:
    with pytest.raises(InvalidField) as caught:
        Sampling.from_tree({"stop": ["ok", stop]})
    assert caught.value.param == "stop[1]"


def test_penalties_biases_and_min_p_are_taken_over() -> None:
    tree = {
        "min_p": 0.1,
        "repetition_penalty": 1.2,
        "presence_penalty": -2,
        "frequency_penalty": 0.5,
        "logit_bias": {"7": -100, "9": 0},
    }
    assert Sampling.from_tree(tree) == Sampling(
        min_p=0.1, repetition_penalty=1.2, presence_penalty=-2.0, frequency_penalty=0.5, logit_bias=((7, -100.0),)
    )


@pytest.mark.parametrize(
    ("tree", "param", "allowed"),
    [
        ({"min_p": 1.1}, "min_p", "0 to 1"),
        ({"repetition_penalty": 0}, "repetition_penalty", "0.01 to 2"),
        ({"presence_penalty": 2.5}, "presence_penalty", "-2 to 2"),
        ({"frequency_penalty": "much"}, "frequency_penalty", "-2 to 2"),
        ({"logit_bias": [1]}, "logit_bias", "object"),
        ({"logit_bias": {"the": 1}}, "logit_bias", "token ids"),
        ({"logit_bias": {"7": 101}}, "logit_bias.7", "-100 to 100"),
        ({"logit_bias": {"7": True}}, "logit_bias.7", "-100 to 100"),
        ({"logit_bias": {str(token): 1 for token in range(1025)}}, "logit_bias", "1024"),
    ],
)
def test_what_is_out_of_range_is_refused_by_field_and_range(tree: dict[str, Any], param: str, allowed: str) -> None:
    with pytest.raises(InvalidField, match=allowed) as caught:
        Sampling.from_tree(tree)
    assert caught.value.param == param
