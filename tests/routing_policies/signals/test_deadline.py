from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_protocol.budgets import MAX_BUDGET_MS
from inference_protocol.errors import InvalidHeader
from routing_policies.signals.deadline import Deadline, DeadlineDefaults, parse_deadline

NONE = DeadlineDefaults()
RECEIVED_AT = 1000.0
TOTAL = ("x-latency-budget-ms", "x-envoy-expected-rq-timeout-ms")
TTFT = ("x-ttft-budget-ms", "x-llm-d-slo-ttft-ms")
ALL = (*TOTAL, *TTFT, "grpc-timeout", "x-stainless-read-timeout", "x-llm-d-slo-tpot-ms")


def parse(defaults: DeadlineDefaults = NONE, **headers: str) -> Deadline:
    by_name = {name.replace("_", "-"): value for name, value in headers.items()}
    return parse_deadline(by_name, received_at=RECEIVED_AT, defaults=defaults)


@pytest.mark.parametrize("name", TOTAL)
def test_a_total_budget_becomes_an_absolute_deadline(name: str) -> None:
    assert parse(**{name: "1500"}) == Deadline(RECEIVED_AT, total_at=RECEIVED_AT + 1.5)


@pytest.mark.parametrize("name", TTFT)
def test_a_budget_to_first_content_becomes_a_deadline_of_its_own(name: str) -> None:
    assert parse(**{name: " 250.5 "}) == Deadline(RECEIVED_AT, first_content_at=RECEIVED_AT + 0.2505)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("1H", 3600), ("2M", 120), ("3S", 3), ("1500m", 1.5), ("500000u", 0.5), ("99999999n", 0.099999999)],
)
def test_grpcs_units_are_read(value: str, seconds: float) -> None:
    assert parse(grpc_timeout=value).total_at == pytest.approx(RECEIVED_AT + seconds)


def test_a_hope_for_each_token_feeds_prediction_only() -> None:
    assert parse(x_llm_d_slo_tpot_ms="20") == Deadline(RECEIVED_AT, tpot_ms=20.0)


@given(
    total=st.lists(st.integers(1, 10**6), min_size=3, max_size=3),
    ttft=st.lists(st.integers(1, 10**6), min_size=2, max_size=2),
)
def test_the_smallest_of_a_kind_wins(total: list[int], ttft: list[int]) -> None:
    deadline = parse(
        x_latency_budget_ms=f"{total[0]}",
        x_envoy_expected_rq_timeout_ms=f"{total[1]}",
        grpc_timeout=f"{total[2]}m",
        x_ttft_budget_ms=f"{ttft[0]}",
        x_llm_d_slo_ttft_ms=f"{ttft[1]}",
    )
    assert deadline.total_at == RECEIVED_AT + min(total) / 1000
    assert deadline.first_content_at == RECEIVED_AT + min(*ttft, *total) / 1000


def test_defaults_stand_in_only_where_no_header_of_that_kind_is_given() -> None:
    defaults = DeadlineDefaults(total_ms=500, ttft_ms=200)
    assert parse(defaults) == Deadline(RECEIVED_AT, RECEIVED_AT + 0.5, RECEIVED_AT + 0.2)
    assert parse(defaults, x_latency_budget_ms="9000") == Deadline(RECEIVED_AT, RECEIVED_AT + 9, RECEIVED_AT + 0.2)
    assert parse(defaults, x_ttft_budget_ms="400") == Deadline(RECEIVED_AT, RECEIVED_AT + 0.5, RECEIVED_AT + 0.4)


def test_first_content_is_never_due_after_the_whole() -> None:
    assert parse(DeadlineDefaults(ttft_ms=2000), x_latency_budget_ms="300").first_content_at == RECEIVED_AT + 0.3


def test_the_sdks_timeout_bounds_a_total_and_does_not_replace_the_default() -> None:
    assert parse(x_stainless_read_timeout="600").total_at == RECEIVED_AT + 600
    assert parse(x_stainless_read_timeout="0.5", x_latency_budget_ms="900").total_at == RECEIVED_AT + 0.5
    assert parse(x_stainless_read_timeout="600", x_latency_budget_ms="900").total_at == RECEIVED_AT + 0.9
    assert parse(DeadlineDefaults(total_ms=5000), x_stainless_read_timeout="600.0").total_at == RECEIVED_AT + 5


BAD = [
    "",
    " ",
    "0",
    "0.0",
    "-5",
    "+5",
    "soon",
    "nan",
    "inf",
    "1e3",
    "0x10",
    "1_000",
    "5 ms",
    "1,5",
    "100, 200",
    "٥",
    "9" * 12,
]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("value", BAD)
def test_a_budget_that_cannot_be_one_is_refused_by_the_headers_name(name: str, value: str) -> None:
    with pytest.raises(InvalidHeader, match="above zero") as caught:
        parse(**{name: value})
    assert caught.value.param == name
    assert name in caught.value.message


@pytest.mark.parametrize("value", ["5", "S", "1s", "100000000m", "1.5S", "0S", "-1S", "1S 2S", "99999999H"])
def test_a_grpc_timeout_outside_its_grammar_is_refused(value: str) -> None:
    with pytest.raises(InvalidHeader, match="H M S m u n"):
        parse(grpc_timeout=value)


def test_the_longest_budget_is_accepted_and_one_more_is_not() -> None:
    assert parse(x_latency_budget_ms=str(MAX_BUDGET_MS)).total_at == RECEIVED_AT + 604_800
    with pytest.raises(InvalidHeader, match="seven days"):
        parse(x_latency_budget_ms=str(MAX_BUDGET_MS + 1))


def test_what_is_left_shrinks_with_time_and_turns_negative_when_late() -> None:
    deadline = parse(x_latency_budget_ms="1000", x_ttft_budget_ms="250")
    assert deadline.remaining_total_ms(RECEIVED_AT + 0.25) == pytest.approx(750)
    assert deadline.remaining_first_content_ms(RECEIVED_AT + 0.25) == pytest.approx(0)
    assert math.isclose(deadline.remaining_total_ms(RECEIVED_AT + 3) or 0, -2000)


def test_without_a_deadline_nothing_is_left_to_count() -> None:
    assert parse().remaining_total_ms(RECEIVED_AT) is None
    assert parse().remaining_first_content_ms(RECEIVED_AT) is None
