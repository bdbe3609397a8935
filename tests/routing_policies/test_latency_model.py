from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from types import SimpleNamespace

import pytest

from inference_protocol.runtime_state import RuntimeState, RuntimeStatus
from routing_policies.latency_model import (
    Attempted,
    BudgetKind,
    Observations,
    observe,
    predict,
    probability_within,
)
from routing_policies.signals.size import TokenInterval
from routing_policies.snapshot import Prediction

PROMPT = TokenInterval(900, 1000, 1100)


def state(**changes: object) -> RuntimeState:
    """Reads 500 prompt tokens a second; 10 ms a token alone, 30 ms for eight at once; four slots."""
    facts: dict[str, object] = {
        "status": RuntimeStatus.READY,
        "slots": 4,
        "ms_per_token": {1: 10.0, 8: 30.0},
        "prefill_tokens_per_s": 500.0,
        **changes,
    }
    return RuntimeState.model_validate(facts)


def predicted(
    reported: RuntimeState | None, observations: Observations | None = None, in_flight: int = 0
) -> Prediction:
    found = predict(reported, observations or Observations(), PROMPT, 200, in_flight=in_flight)
    assert found is not None
    return found


def attempted(**changes: object) -> Attempted:
    base = Attempted(in_flight=1, ttft_ms=100.0, total_ms=1000.0, complete=True, output_tokens=91, output_cap=200)
    return replace(base, **changes)


def test_an_idle_runtime_takes_its_prefill_and_then_its_tokens() -> None:
    found = predicted(state())
    assert found.output_tokens == 100  # half of the cap, before anything was seen
    assert found.ttft_ms == pytest.approx(1000 * 1000 / 500)
    assert found.total_ms == pytest.approx(2000 + 100 * 10)


def test_prompts_that_wait_to_be_read_delay_the_first_token() -> None:
    assert predicted(state(prefill_tokens_queued=250)).ttft_ms == pytest.approx(2000 + 500)


def test_a_larger_batch_makes_each_token_slower_by_interpolation() -> None:
    found = predicted(state(running=2))
    per_token = 10 + (3 - 1) / (8 - 1) * (30 - 10)
    assert found.total_ms - found.ttft_ms == pytest.approx(100 * per_token)
    assert predicted(state(slots=16, running=12)).total_ms == pytest.approx(2000 + 100 * 30)


def test_with_all_slots_taken_a_request_waits_for_one() -> None:
    per_token = 10 + (4 - 1) / (8 - 1) * (30 - 10)
    assert predicted(state(running=3)).ttft_ms == pytest.approx(2000)
    assert predicted(state(running=4)).ttft_ms == pytest.approx(2000 + 100 * per_token / 4)
    assert predicted(state(running=4, waiting=3)).ttft_ms == pytest.approx(2000 + 100 * per_token)


def test_requests_sent_since_the_last_report_count() -> None:
    assert predicted(state(running=0), in_flight=4).ttft_ms == predicted(state(running=4)).ttft_ms


def test_nothing_is_predicted_from_nothing() -> None:
    for reported in (None, state(ms_per_token={}), state(prefill_tokens_per_s=None)):
        assert predict(reported, Observations(), PROMPT, 200, in_flight=0) is None


def test_a_server_that_reports_nothing_is_predicted_from_its_answers() -> None:
    seen = observe(Observations(), None, attempted(ttft_ms=200.0, total_ms=1100.0, output_tokens=91))
    found = predicted(None, seen)
    assert found.ttft_ms == pytest.approx(200)
    assert found.total_ms == pytest.approx(200 + 10 * found.output_tokens)
    busier = predicted(None, seen, in_flight=3)
    assert busier.ttft_ms == pytest.approx(4 * 200)


def test_past_errors_correct_the_prediction_and_a_steady_target_becomes_surer() -> None:
    observations = Observations()
    for _ in range(60):
        prediction = predicted(state(), observations)
        actual = attempted(ttft_ms=2 * 2000.0, total_ms=1.5 * 3000.0, output_tokens=100)
        observations = observe(observations, prediction, actual)
    found = predicted(state(), observations)
    assert found.ttft_ms == pytest.approx(4000, rel=0.02)
    assert found.total_ms == pytest.approx(4500, rel=0.02)
    assert found.ttft_spread < predicted(state()).ttft_spread / 2
    assert found.base == predicted(state()).base


def test_many_answers_at_once_do_not_overcorrect() -> None:
    """Sixteen requests were predicted before any of them ended; each must not add the same correction again."""
    prediction, observations = predicted(state()), Observations()
    for _ in range(16):
        observations = observe(observations, prediction, attempted(ttft_ms=4000.0, total_ms=6000.0))
    assert predicted(state(), observations).ttft_ms <= 4000


def test_a_change_of_speed_is_followed_within_a_few_tens_of_answers() -> None:
    observations = Observations()
    for factor in [1.0] * 200 + [3.0] * 40:
        prediction = predicted(state(), observations)
        actual = attempted(ttft_ms=factor * 2000.0, total_ms=factor * 3000.0, output_tokens=100)
        observations = observe(observations, prediction, actual)
    assert predicted(state(), observations).ttft_ms == pytest.approx(6000, rel=0.15)


def test_an_attempt_that_was_given_up_counts_as_at_least_as_long_as_it_ran() -> None:
    prediction = predicted(state())
    slow = observe(
        Observations(), prediction, attempted(ttft_ms=None, total_ms=20_000.0, complete=False, output_tokens=None)
    )
    assert predicted(state(), slow).ttft_ms > prediction.ttft_ms
    assert predicted(state(), slow).total_ms > prediction.total_ms


def test_an_attempt_that_was_given_up_early_teaches_nothing_of_speed() -> None:
    prediction = predicted(state())
    early = observe(
        Observations(), prediction, attempted(ttft_ms=None, total_ms=5.0, complete=False, output_tokens=None)
    )
    assert predicted(state(), early) == prediction


def test_an_answer_that_came_whole_teaches_its_total_and_not_its_first_token() -> None:
    prediction = predicted(state())
    seen = observe(Observations(), prediction, attempted(ttft_ms=None, total_ms=9000.0))
    assert seen.ttft == Observations().ttft
    assert seen.total.mean > 0


def test_the_expected_length_follows_the_share_of_the_cap_that_answers_use() -> None:
    observations = Observations()
    for _ in range(60):
        observations = observe(observations, None, attempted(output_tokens=20, output_cap=200))
    assert predicted(state(), observations).output_tokens == pytest.approx(20, rel=0.1)


def test_the_probability_is_the_cdf_of_a_lognormal_distribution(make: SimpleNamespace) -> None:
    prediction = make.prediction(800, ttft_ms=100, spread=0.25)
    for budget in (100.0, 500.0, 800.0, 1000.0, 5000.0):
        expected = NormalDist(math.log(800), 0.25).cdf(math.log(budget))
        assert probability_within(prediction, budget, BudgetKind.TOTAL) == pytest.approx(expected)
    assert probability_within(prediction, 100, BudgetKind.FIRST_CONTENT) == pytest.approx(0.5)
    assert probability_within(prediction, 0, BudgetKind.TOTAL) == 0.0
    assert probability_within(prediction, -5, BudgetKind.FIRST_CONTENT) == 0.0


def test_an_empty_prompt_at_an_idle_runtime_still_has_a_time() -> None:
    found = predict(state(), Observations(), TokenInterval(0, 0, 0), 0, in_flight=0)
    assert found is not None
    assert probability_within(found, 1e6, BudgetKind.TOTAL) == pytest.approx(1.0)
