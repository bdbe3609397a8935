"""Runs the examples that stand in a policy's own file. A policy whose example fails must not be put in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inference_protocol.request import Needs, Task
from routing_policies.decide import decide
from routing_policies.policy.examples import Expect, Given, GivenDevice, GivenTarget
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.signals.deadline import Deadline
from routing_policies.signals.hints import Hints
from routing_policies.signals.label import NOTHING, Component, Finding, ScanResult, label_of
from routing_policies.signals.size import Size, TokenInterval
from routing_policies.snapshot import Capabilities, Device, Prediction, Snapshot, TargetSnapshot
from routing_policies.verdict import Verdict
from routing_policies.view import RequestView, Tenant

_MODEL = "any"
_SPREAD = 0.3
_BYTES_PER_TOKEN = 4
# Where a finding can be replaced by a token.
_SPOKEN = "messages[0].content"


@dataclass(frozen=True, slots=True)
class Failure:
    """An example that the policy does not decide as it says."""

    test: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """What running a policy's tests showed.

    Attributes:
        untouched: Rules whose `when` matched in none of them, in the document's order.
        coverage: The share of rules whose `when` matched in one; 1 without rules.
    """

    tests: int
    failures: tuple[Failure, ...]
    untouched: tuple[str, ...]
    coverage: float


def run_tests(policy: LoadedPolicy) -> Report:
    """Run every test of a policy."""
    failures: list[Failure] = []
    touched: set[str] = set()
    for test in policy.policy.tests:
        snapshot = given_snapshot(policy, test.given.targets, test.given.device)
        verdict = decide(policy, _view(policy, test.given), snapshot)
        failures += [Failure(test.name, message) for message in _differences(test.expect, verdict)]
        touched.update(verdict.rules)
    rules = [*(rule.id for rule in policy.constraints), *(rule.id for rule in policy.preferences)]
    untouched = tuple(rule for rule in rules if rule not in touched)
    coverage = 1.0 - len(untouched) / len(rules) if rules else 1.0
    return Report(len(policy.policy.tests), tuple(failures), untouched, coverage)


def _differences(expect: Expect, verdict: Verdict) -> list[str]:
    order = tuple(eligible.target for eligible in verdict.eligible)
    chosen = order[0] if order else "none"
    found: list[str] = []
    if expect.target is not None and expect.target != chosen:
        found.append(f"expected target {expect.target}, got {chosen} ({verdict.reason})")
    if expect.eligible is not None and set(expect.eligible) != set(order):
        found.append(f"expected eligible {_listed(expect.eligible)}, got {_listed(order)}")
    if expect.rule is not None and expect.rule not in verdict.rules:
        found.append(f"expected the rule {expect.rule} to take part, got {_listed(verdict.rules)}")
    return found


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(sorted(words)) or "none"


def _view(policy: LoadedPolicy, given: Given) -> RequestView:
    label, request = given.label, given.request
    found = tuple(Finding(f"given {tag}", tag, _SPOKEN, 0, 0, "given") for tag in label.findings)
    bytes_of_text = given.tokens * _BYTES_PER_TOKEN
    return RequestView(
        task=request.task,
        model=request.model,
        stream=request.stream,
        needs=Needs(tools=request.tools, schema=request.json_schema, images=request.images, audio=request.audio),
        label=label_of(
            policy.label_rules,
            declared=Component(label.data_class, frozenset(label.tags)),
            key=NOTHING,
            taint=NOTHING,
            scan=ScanResult(found, frozenset(label.causes)),
        ),
        deadline=Deadline(0.0, _at(given.total_ms), _at(given.ttft_ms)),
        size=Size(
            TokenInterval(given.tokens, given.tokens, given.tokens),
            bytes_of_text if request.body_bytes is None else request.body_bytes,
        ),
        output_cap=request.output_cap or policy.policy.defaults.max_tokens,
        cap_is_own=request.output_cap is not None,
        tenant=Tenant(given.tenant.id, frozenset(given.tenant.roles), given.residency),
        hints=Hints(**given.client.model_dump()),
    )


def _at(budget_ms: float | None) -> float | None:
    return None if budget_ms is None else budget_ms / 1000.0


def given_snapshot(policy: LoadedPolicy, given: Mapping[str, GivenTarget], device: GivenDevice) -> Snapshot:
    """The targets as they are said to be, up and able where nothing is said, and this device, at second 0."""
    return Snapshot(
        {name: _target(name, given.get(name, GivenTarget())) for name in policy.policy.targets},
        now=0.0,
        device=Device(device.connectivity, device.free_memory_mb),
    )


def _target(name: str, given: GivenTarget) -> TargetSnapshot:
    can = Capabilities(
        _MODEL,
        window=given.window,
        tasks=frozenset(Task),
        tools=True,
        json_schema=True,
        images=True,
        audio=True,
    )
    return TargetSnapshot(name, given.health, can, prediction=_prediction(given), waiting=given.waiting)


def _prediction(given: GivenTarget) -> Prediction | None:
    ttft_ms = given.ttft_ms if given.ttft_ms is not None else given.total_ms
    if ttft_ms is None:
        return None
    total_ms = given.total_ms if given.total_ms is not None else ttft_ms
    return Prediction(ttft_ms, total_ms, _SPREAD, _SPREAD, output_tokens=0.0, base=(ttft_ms, total_ms))
