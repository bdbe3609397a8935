"""The hard rules: which targets may answer at all. Looked at once, before any attempt, and by nothing later.

Whatever cannot be told counts against a target: a condition that fails to evaluate, a bound on the tokens that leaves
a rule open, a tag nobody mentioned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inference_protocol.capability import unmet
from inference_protocol.request import GENERATES, Task
from routing_policies.policy.conditions import Answer, Evaluation
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.policy.model import Target
from routing_policies.policy.rules import HardRule
from routing_policies.signals.label import Label, LabelRules
from routing_policies.snapshot import Capabilities, Health, Snapshot, TargetSnapshot
from routing_policies.transforms import label_as_sent
from routing_policies.verdict import Exclusion, ExclusionKind
from routing_policies.view import RequestView

_CANNOT_BE_ASKED: Mapping[Health, str] = {
    Health.DOWN: "is down",
    Health.STARTING: "is still starting",
    Health.DRAINING: "is shutting down",
    Health.RESTING: "asked to be left alone for a while",
    Health.FAILING: "failed several times in a row",
}


_WORK: Mapping[Task, str] = {
    Task.CHAT: "chats",
    Task.COMPLETION: "completions",
    Task.EMBEDDING: "embeddings",
    Task.TENSOR: "inference on tensors",
}


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Which targets may answer.

    Attributes:
        targets: In the policy's order.
        excluded: Every other target that policy or settings name, to the reason.
        matched: Ids of the hard rules whose `when` matched.
        notes: What could not be evaluated, for a person.
    """

    targets: tuple[str, ...]
    excluded: Mapping[str, Exclusion]
    matched: tuple[str, ...]
    notes: tuple[str, ...]


def find_eligible(policy: LoadedPolicy, view: RequestView, snapshot: Snapshot, evaluation: Evaluation) -> Eligibility:
    """Apply the hard rules to every target."""
    asked = _Asked.of(policy, view, evaluation)
    targets: list[str] = []
    excluded: dict[str, Exclusion] = {}
    for name, promise in policy.policy.targets.items():
        exclusion = asked.exclusion(name, promise, snapshot.targets.get(name))
        if exclusion is None:
            targets.append(name)
        else:
            excluded[name] = exclusion
    for name in snapshot.targets:
        if name not in policy.policy.targets:
            excluded[name] = Exclusion(ExclusionKind.NOT_CONFIGURED, "is not named by the policy")
    return Eligibility(tuple(targets), excluded, tuple(rule.id for rule in asked.rules), tuple(asked.notes))


def needs_exact_count(policy: LoadedPolicy, view: RequestView, windows: Mapping[str, int | None]) -> bool:
    """Whether the bounds on the input tokens leave a hard rule or a window open, so that they must be counted."""
    tokens = view.size.tokens
    if tokens.least == tokens.most:
        return False
    for name in policy.policy.targets if view.task in GENERATES else ():
        window = windows.get(name)
        if window is not None and tokens.least <= window - view.reserved_output < tokens.most:
            return True
    return any(
        not condition.is_decided_by(tokens)
        for rule in policy.constraints
        for condition in (rule.when, rule.require)
        if condition is not None
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request as the hard rules see it, with what is the same for every target worked out once."""

    view: RequestView
    label_rules: LabelRules
    rules: tuple[HardRule, ...]
    notes: list[str]
    evaluation: Evaluation

    @classmethod
    def of(cls, policy: LoadedPolicy, view: RequestView, evaluation: Evaluation) -> _Asked:
        matched: list[HardRule] = []
        notes: list[str] = []
        for rule in policy.constraints:
            answer = evaluation.surely(rule.when)
            if answer is Answer.ERROR:
                notes.append(f"{rule.id}: `when` could not be evaluated, so the rule was applied")
            if answer is not Answer.FALSE:
                matched.append(rule)
        return cls(view, policy.label_rules, tuple(matched), notes, evaluation)

    def exclusion(self, name: str, promise: Target, found: TargetSnapshot | None) -> Exclusion | None:
        """The first reason against a target, in the order of `ExclusionKind`."""
        if found is None:
            return Exclusion(ExclusionKind.NOT_CONFIGURED, "is not named by the settings")
        if found.capabilities.served_model is None:
            return Exclusion(ExclusionKind.MODEL, "does not serve the model")
        sent = label_as_sent(promise, self.view.label, self.label_rules, self.view.task)
        return (
            self._by_label(promise, sent)
            or self._by_rules(name)
            or self._by_capability(found.capabilities)
            or self._by_window(found.capabilities.window)
            or self._by_health(found)
        )

    @staticmethod
    def _by_label(promise: Target, sent: Label) -> Exclusion | None:
        if sent.level > promise.clearance:
            return Exclusion(ExclusionKind.CLEARANCE, f"is cleared for {promise.clearance.word} data at most")
        refused = [tag for tag in sorted(sent.tags) if not promise.allows_tag(tag)]
        if refused:
            return Exclusion(ExclusionKind.TAG, f"may not be sent data tagged {', '.join(refused)}")
        return None

    def _by_rules(self, name: str) -> Exclusion | None:
        """Rules see the request as it came, whatever is done to it for a target."""
        for rule in self.rules:
            answer = rule.permits(name, self.evaluation)
            if answer is Answer.ERROR:
                self.notes.append(f"{rule.id}: `require` could not be evaluated for {name}, so it was taken as failed")
            if answer is not Answer.TRUE:
                return Exclusion(ExclusionKind.CONSTRAINT, f"is excluded by the rule {rule.id}", rule.id)
        return None

    def _by_capability(self, can: Capabilities) -> Exclusion | None:
        if self.view.task not in can.tasks:
            return Exclusion(
                ExclusionKind.CAPABILITY, f"cannot do {_WORK[self.view.task]} with this model", field="model"
            )
        lacking = unmet(self.view.needs, can)
        if not lacking:
            return None
        detail = f"cannot do {', '.join(need.what for need in lacking)}"
        return Exclusion(ExclusionKind.CAPABILITY, detail, field=lacking[0].field)

    def _by_window(self, window: int | None) -> Exclusion | None:
        needed = self.view.size.tokens.most + self.view.reserved_output
        # Where nothing is generated each input has a window of its own, which its own tokenizer measures: the target's.
        if window is None or needed <= window or self.view.task not in GENERATES:
            return None
        return Exclusion(ExclusionKind.WINDOW, f"has a window of {window} tokens, and the request may take {needed}")

    def _by_health(self, found: TargetSnapshot) -> Exclusion | None:
        state = _CANNOT_BE_ASKED.get(found.health)
        return None if state is None else Exclusion(ExclusionKind.DOWN, state, back_in_s=found.back_in_s)
