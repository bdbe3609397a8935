"""Warnings about rules that are no error and yet not what anybody means: they never fire, or can never matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from routing_policies.lab.domain import TAGS, TooManyCells, target_values
from routing_policies.lab.formula import Formula, conjunction, disjunction, negation
from routing_policies.lab.mentions import Mentions
from routing_policies.lab.rulebook import Rulebook, RuleFormulas, rulebook_of
from routing_policies.lab.search import MAX_CELLS, Effort, find
from routing_policies.policy.conditions import Condition
from routing_policies.policy.errors import PolicyError, suggestion
from routing_policies.policy.expression import parse
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.model import Findings, Policy
from routing_policies.policy.yaml_source import Path
from routing_policies.signals.label import NOTED, can_be_declared


def lint(loaded: LoadedPolicy, max_cells: int = MAX_CELLS) -> list[PolicyError]:
    """Return the warnings in the order of their places. They are of the kind of an error, but none is raised."""
    found: list[PolicyError] = []
    try:
        linter = _Linter(loaded, rulebook_of(loaded), Effort(max_cells))
        for path, message in linter.warnings():
            found.append(loaded.source.error(path, message))
    except TooManyCells as exc:
        found.append(loaded.source.error((), f"not all rules were looked at: too many cells ({exc})"))
    return sorted(found, key=lambda warning: (warning.line, warning.column))


@dataclass(slots=True)
class _Linter:
    loaded: LoadedPolicy
    rules: Rulebook
    effort: Effort
    idle: set[int] = field(default_factory=set)

    def warnings(self) -> Iterator[tuple[Path, str]]:
        yield from self._never_firing()
        yield from self._refusing_all()
        yield from self._shadowed()
        yield from self._contradictory()
        yield from self._preferences()
        yield from self._tags()

    def _tags(self) -> Iterator[tuple[Path, str]]:
        """Callers may declare tags of their own, so a misspelt one is no error; and yet it guards nothing."""
        for path, rule_id, conditions in _rules(self.loaded):
            found = Mentions()
            for condition in conditions:
                found.add(parse(condition.source), _any_target(self.loaded.policy))
            for tag in sorted(found.mark(TAGS).exact):
                if doubt := _doubt(tag):
                    yield path, f"`{rule_id}` looks for the tag `{tag}`{doubt}"
        for name, target in self.loaded.policy.targets.items():
            for at, tag in enumerate(target.tags_allowed or ()):
                if doubt := _doubt(tag):
                    yield ("targets", name, "tags_allowed", at), f"`{name}` allows the tag `{tag}`{doubt}"

    def _possible(self, *formulas: Formula) -> bool:
        return find(self.rules.domain, [*formulas, *self.rules.possible], self.effort) is not None

    def _targets(self) -> Sequence[str]:
        return list(self.loaded.policy.targets)

    def _admitted(self, target: str) -> Formula:
        return conjunction(self.rules.admits[target])

    def _never_firing(self) -> Iterator[tuple[Path, str]]:
        for section, rules in (("constraints", self.rules.constraints), ("invariants", self.rules.invariants)):
            for index, rule in enumerate(rules):
                if not self._possible(rule.when):
                    yield (section, index), f"`{rule.id}` never fires: no request fulfils its `when`"
                    if section == "constraints":
                        self.idle.add(index)

    def _refusing_all(self) -> Iterator[tuple[Path, str]]:
        for index, rule in enumerate(self.rules.constraints):
            if index in self.idle:
                continue
            if not any(self._possible(rule.when, rule.permits[name], self._admitted(name)) for name in self._targets()):
                yield ("constraints", index), f"`{rule.id}` refuses every request it applies to: no target fulfils it"
                self.idle.add(index)

    def _shadowed(self) -> Iterator[tuple[Path, str]]:
        """From the last to the first, so that of two alike the later one is reported."""
        for index in reversed(range(len(self.rules.constraints))):
            if index in self.idle:
                continue
            rule = self.rules.constraints[index]
            others = {*self.idle, index}
            if any(
                self._possible(rule.excludes(name), *self.rules.may_answer(name, less=others))
                for name in self._targets()
            ):
                continue
            self.idle.add(index)
            yield ("constraints", index), f"`{rule.id}` can never matter: {self._by_whom(rule)}"

    def _by_whom(self, rule: RuleFormulas) -> str:
        """Who else excludes every target that a rule does, wherever it does."""
        if not any(self._possible(rule.excludes(name)) for name in self._targets()):
            return "it excludes no target"
        if not any(self._possible(rule.excludes(name), self._admitted(name)) for name in self._targets()):
            return "clearance and tags already exclude every target that it would"
        for index, other in enumerate(self.rules.constraints):
            if index not in self.idle and not any(
                self._possible(rule.excludes(name), negation(other.excludes(name)), self._admitted(name))
                for name in self._targets()
            ):
                return f"it is shadowed by `{other.id}`"
        return "other rules together already exclude every target that it would"

    def _contradictory(self) -> Iterator[tuple[Path, str]]:
        active = [(i, rule) for i, rule in enumerate(self.rules.constraints) if i not in self.idle]
        for at, (index, rule) in enumerate(active):
            for _, earlier in active[:at]:
                if self._refuse_together(earlier, rule):
                    yield (
                        ("constraints", index),
                        f"`{rule.id}` contradicts `{earlier.id}`: where both apply, they leave no target, though "
                        "either alone does",
                    )

    def _refuse_together(self, one: RuleFormulas, other: RuleFormulas) -> bool:
        names = self._targets()
        either = {name: disjunction([one.excludes(name), other.excludes(name)]) for name in names}
        if any(formula.constant is False for formula in either.values()):
            return False
        gone = [disjunction([negation(self._admitted(name)), either[name]]) for name in names]
        left = [
            disjunction(conjunction([self._admitted(name), negation(rule.excludes(name))]) for name in names)
            for rule in (one, other)
        ]
        return self._possible(one.when, other.when, *gone, *left)

    def _preferences(self) -> Iterator[tuple[Path, str]]:
        for index, (rule, when) in enumerate(zip(self.loaded.preferences, self.rules.preferences, strict=True)):
            if not self._possible(when):
                yield ("prefer", index), f"`{rule.id}` never fires: no request fulfils its `when`"
            elif not self._possible(when, *self.rules.may_answer(rule.target)):
                yield ("prefer", index), f"`{rule.id}` can never matter: {rule.target} may not answer where it fires"
            elif len(self._targets()) == 1:
                yield ("prefer", index), f"`{rule.id}` can never matter: there is no other target"


def _rules(loaded: LoadedPolicy) -> Iterator[tuple[Path, str, list[Condition]]]:
    constraints = len(loaded.policy.constraints)
    for at, rule in enumerate(loaded.constraints):
        path: Path = ("constraints", at) if at < constraints else ("invariants", at - constraints)
        yield path, rule.id, [side for side in (rule.when, rule.require) if side is not None]
    for at, preference in enumerate(loaded.preferences):
        yield ("prefer", at), preference.id, [preference.when]


def _any_target(policy: Policy) -> Mapping[str, Any]:
    name, target = next(iter(policy.targets.items()))
    return target_values(name, target)


def _doubt(tag: str) -> str:
    """Why a tag is likely not what was meant; empty where it may well be."""
    known = {*Findings().by_tag(), *NOTED}
    near = "" if tag in known else suggestion(tag.lower(), known, cutoff=0.8)
    if not can_be_declared(tag):
        return f", which no request can carry: tags are lower-case letters, digits, `_` and `-`{near}"
    return near
