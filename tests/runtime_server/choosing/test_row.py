from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_protocol.sampling import Sampling
from runtime_server.choosing.likeliest import at_least_as_large, largest
from runtime_server.choosing.logprobs import logprobs_of
from runtime_server.choosing.row import NothingAllowed, RowChooser
from runtime_server.choosing.sampler import NonFiniteLogits
from runtime_server.engine import GenerationJob

VOCABULARY = 300


def chooser(prompt: tuple[int, ...] = (1,), logprobs: int | None = None, **parameters: Any) -> RowChooser:
    sampling = Sampling(**{"temperature": 0.0, **parameters})
    return RowChooser(GenerationJob("r", prompt, 8, sampling, frozenset(), logprobs=logprobs))


def logits(**at: float) -> np.ndarray:
    found = np.zeros(VOCABULARY, np.float32)
    for token, value in at.items():
        found[int(token[1:])] = value
    return found


def test_a_repetition_penalty_counts_prompt_and_answer_and_divides_or_multiplies() -> None:
    row = chooser(prompt=(5, 5), repetition_penalty=2.0)
    assert row.next(logits(t5=3.0, t6=2.0)).token == 6  # 3 / 2 < 2
    assert row.next(logits(t5=3.0, t6=2.5, t7=1.4)).token == 5  # 6 was said: 2.5 / 2 < 3 / 2
    below = chooser(prompt=(5,), repetition_penalty=2.0)
    assert below.next(np.where(np.arange(VOCABULARY) == 5, -1.0, -1.5).astype(np.float32)).token == 0  # -1 · 2 < -1.5


def test_presence_counts_once_and_frequency_each_time_and_neither_the_prompt() -> None:
    row = chooser(prompt=(5,), presence_penalty=1.0)
    assert [row.next(logits(t5=3.0, t6=1.5)).token for _ in range(3)] == [5, 5, 5]
    row = chooser(prompt=(5,), frequency_penalty=1.0)
    assert [row.next(logits(t5=3.0, t6=1.5)).token for _ in range(4)] == [5, 5, 6, 5]


def test_a_bias_is_added_before_anything_else() -> None:
    assert chooser(logit_bias=((6, 4.0),)).next(logits(t5=3.0)).token == 6
    assert chooser(logit_bias=((5, -100.0),)).next(logits(t5=3.0, t6=1.0)).token == 6


def test_many_tokens_can_be_counted() -> None:
    row = chooser(frequency_penalty=0.5)
    said = [row.next(logits(**{f"t{at}": 1.0})).token for at in range(VOCABULARY)]
    assert said == list(range(VOCABULARY))


def test_log_probabilities_are_the_models_own_whatever_the_parameters() -> None:
    random = np.random.default_rng(0).standard_normal(VOCABULARY).astype(np.float32) * 3
    plain = np.asarray(random, np.float64) - np.log(np.exp(np.asarray(random, np.float64)).sum())
    best = int(random.argmax())
    [told] = chooser(logprobs=4, logit_bias=((best, -100.0),), repetition_penalty=1.5).next(random).logprobs
    assert told.token != best
    assert told.logprob == pytest.approx(plain[told.token], abs=1e-5)
    assert [token for token, _ in told.top] == np.argsort(-random)[:4].tolist()
    assert [value for _, value in told.top] == pytest.approx(np.sort(plain)[::-1][:4].tolist(), abs=1e-5)


def test_a_prompts_tokens_are_told_by_the_row_before_them() -> None:
    rows = np.random.default_rng(1).standard_normal((3, VOCABULARY)).astype(np.float32)
    told = logprobs_of(rows, (7, 8, 9), 1)
    assert [each.token for each in told] == [7, 8, 9]
    assert [each.top[0][0] for each in told] == rows.argmax(axis=1).tolist()


def test_only_what_is_allowed_is_chosen_and_a_bias_cannot_bring_the_rest_back() -> None:
    allowed = np.zeros(VOCABULARY, np.bool_)
    allowed[[3, 4]] = True
    row = chooser(temperature=1.5, seed=1, logit_bias=((9, 100.0),))
    assert {row.next(logits(t3=0.1, t9=50.0), allowed).token for _ in range(50)} == {3, 4}
    with pytest.raises(NothingAllowed):
        row.next(logits(), np.zeros(VOCABULARY, np.bool_))


def test_a_form_does_not_hide_that_the_model_broke() -> None:
    allowed = np.zeros(VOCABULARY, np.bool_)
    allowed[3] = True
    with pytest.raises(NonFiniteLogits):
        chooser().next(logits(t9=np.nan), allowed)


@given(st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=400), st.integers(1, 20))
def test_the_largest_are_found_without_sorting_all(values: list[float], count: int) -> None:
    found = np.array(values, np.float32)
    count = min(count, len(found))
    assert (found >= at_least_as_large(found, count)).sum() >= count
    assert found[largest(found, count)].tolist() == np.sort(found)[::-1][:count].tolist()


@pytest.mark.parametrize(
    "parameters",
    [
        {"temperature": 0.8},
        {"temperature": 0.8, "top_p": 0.9},
        {"temperature": 1.3, "top_k": 40, "top_p": 0.95, "min_p": 0.02},
    ],
)
def test_a_large_vocabulary_is_drawn_from_as_the_parameters_say(parameters: dict[str, Any]) -> None:
    found = (np.random.default_rng(2).standard_normal(5_001) * 4).astype(np.float32)
    weights = np.exp((found.astype(np.float64) - found.max()) / parameters["temperature"])
    kept = np.ones(len(found), np.bool_)
    if "min_p" in parameters:
        kept &= weights >= parameters["min_p"]
    if "top_k" in parameters:
        kept &= found >= np.sort(found)[-parameters["top_k"]]
    weights *= kept
    if "top_p" in parameters:
        order = np.argsort(-weights)
        size = int(np.searchsorted(np.cumsum(weights[order]), weights.sum() * parameters["top_p"])) + 1
        weights[order[size:]] = 0.0
    expected = weights / weights.sum()
    row = chooser(seed=5, **parameters)
    draws = np.bincount([row.next(found).token for _ in range(4_000)], minlength=len(found)) / 4_000
    assert not draws[expected == 0.0].any()
    assert np.abs(draws - expected).max() < 0.04
