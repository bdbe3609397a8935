from __future__ import annotations

from types import SimpleNamespace

import pytest

from inference_protocol.errors import (
    CapabilityUnavailable,
    ContextLengthExceeded,
    DeadlineExceeded,
    NoTargetAvailable,
    PolicyRefused,
    TidegateError,
    UnknownModel,
)
from inference_protocol.request import Needs
from routing_policies.decide import decide
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.refusal import refusal
from routing_policies.signals.label import DataClass
from routing_policies.snapshot import Health, Snapshot
from routing_policies.view import RequestView


def refused(policy: LoadedPolicy, view: RequestView, snapshot: Snapshot) -> TidegateError:
    verdict = decide(policy, view, snapshot)
    assert not verdict.eligible
    return refusal(verdict, policy)


def test_restricted_data_with_the_edge_down_is_told_so_plainly(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(make.target("edge", Health.DOWN), make.target("cloud"))
    error = refused(make.policy(), make.view(DataClass.RESTRICTED), snapshot)
    assert type(error) is NoTargetAvailable
    assert error.message == (
        "This request is labelled restricted; only `edge` may answer it, and `edge` is down. Try again shortly."
    )
    assert error.retry_after_s == 5.0
    assert error.details == {
        "edge": {"kind": "down", "rule": None, "detail": "is down"},
        "cloud": {"kind": "clearance", "rule": None, "detail": "is cleared for internal data at most"},
    }


def test_tags_are_named_where_they_keep_data_here(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(make.target("edge", Health.STARTING), make.target("cloud"))
    error = refused(make.policy(), make.view(tags={"pii", "phi"}), snapshot)
    assert error.message.startswith(
        "This request is labelled public (phi, pii); only `edge` may answer it, and `edge` is"
    )


def test_with_every_target_down_each_one_is_named(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(make.target("edge", Health.STARTING), make.target("cloud", Health.DOWN))
    error = refused(make.policy(), make.view(), snapshot)
    assert error.message == (
        "No target can answer this request: `edge` is still starting, `cloud` is down. Try again shortly."
    )


def test_a_target_that_is_down_and_a_model_elsewhere_do_not_blame_the_label(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(make.target("edge", served_model=None), make.target("cloud", Health.DOWN))
    error = refused(make.policy(), make.view(), snapshot)
    assert error.message == "Only `cloud` can answer this request, and `cloud` is down. Try again shortly."


def test_a_policy_that_excludes_every_target_refuses_whatever_their_state(make: SimpleNamespace) -> None:
    policy = make.policy("constraints:\n  - {id: nobody, deny: [edge]}\n")
    snapshot = make.snapshot(make.target("edge", Health.DOWN), make.target("cloud", Health.DOWN))
    error = refused(policy, make.view(DataClass.CONFIDENTIAL), snapshot)
    assert type(error) is PolicyRefused
    assert error.message == (
        "This request is labelled confidential, and the policy `two` lets no target answer it: `edge` is excluded by "
        "the rule nobody, `cloud` is cleared for internal data at most."
    )


def test_a_prompt_for_no_window_is_told_the_windows(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(make.target("edge", window=1000), make.target("cloud", window=2000))
    error = refused(make.policy(), make.view(tokens=1950, output_cap=100), snapshot)
    assert type(error) is ContextLengthExceeded
    assert "`cloud` has a window of 2000 tokens, and the request may take 2050" in error.message
    restricted = refused(make.policy(), make.view(DataClass.RESTRICTED, tokens=1950), snapshot)
    assert type(restricted) is ContextLengthExceeded
    assert "only `edge` may answer it" in restricted.message


def test_what_no_target_that_may_answer_can_do_is_named(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(make.target("edge", tools=False), make.target("cloud"))
    error = refused(make.policy(), make.view(DataClass.RESTRICTED, needs=Needs(tools=True)), snapshot)
    assert type(error) is CapabilityUnavailable
    assert error.message == (
        "This request is labelled restricted; only `edge` may answer it, and `edge` cannot do tools."
    )


def test_a_parameter_that_nobody_knows_is_named_as_the_field_at_fault(make: SimpleNamespace) -> None:
    error = refused(make.policy(), make.view(needs=Needs(parameters=("logit_bias",))), make.snapshot())
    assert (type(error), error.param) == (CapabilityUnavailable, "logit_bias")
    assert "`edge` cannot do `logit_bias`" in error.message


def test_a_model_that_nobody_serves_is_unknown_whatever_the_label(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(*(make.target(name, Health.DOWN, served_model=None) for name in ("edge", "cloud")))
    error = refused(make.policy(), make.view(DataClass.RESTRICTED), snapshot)
    assert type(error) is UnknownModel
    assert error.param == "model"


def test_a_model_that_only_an_uncleared_target_serves_is_refused_by_the_policy(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(make.target("edge", served_model=None), make.target("cloud"))
    assert type(refused(make.policy(), make.view(DataClass.RESTRICTED), snapshot)) is PolicyRefused


def test_late_refuse_says_that_the_budget_is_too_tight(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(*(make.target(n, prediction=make.prediction(900)) for n in ("edge", "cloud")))
    error = refused(make.policy("defaults: {late: refuse}\n"), make.view(total_ms=100), snapshot)
    assert type(error) is DeadlineExceeded
    assert error.message.endswith("`cloud` is unlikely to answer inside the budget. Allow more time.")


@pytest.mark.parametrize("health", [Health.DOWN, Health.STARTING, Health.DRAINING])
def test_a_target_that_will_be_back_makes_the_refusal_retryable(health: Health, make: SimpleNamespace) -> None:
    snapshot = make.snapshot(make.target("edge", health), make.target("cloud"))
    error = refused(make.policy(), make.view(DataClass.RESTRICTED), snapshot)
    assert (error.http_status, error.retryable) == (503, True)
