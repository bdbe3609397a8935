"""A policy as formulas: which requests can come, and when a target may answer one.

A target's own state (down, without the model, too small a window, too slow) and a number of tokens known only between
bounds can only take it out. So what holds for a target that is up and able, and for exact numbers, holds in every
state. Scores, retries, fallbacks and `late: refuse` draw from the eligible targets alone and need no look.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from routing_policies.lab.domain import LEVEL_NAME, TAGS, TOTAL, TTFT, Domain, domain_of, target_values
from routing_policies.lab.formula import (
    FALSE,
    Formula,
    apply,
    conjunction,
    constant,
    disjunction,
    formula_of,
    negation,
    variable,
)
from routing_policies.policy.expression import Expression, parse
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.model import Policy
from routing_policies.policy.rules import HardRule


@dataclass(frozen=True, slots=True)
class RuleFormulas:
    """One hard rule.

    Attributes:
        when: Whether it applies.
        permits: Target to whether that may answer where it applies.
    """

    id: str
    when: Formula
    permits: Mapping[str, Formula]

    def excludes(self, target: str) -> Formula:
        """Whether it takes a target out."""
        return conjunction([self.when, negation(self.permits[target])])


@dataclass(frozen=True, slots=True)
class Rulebook:
    """A policy's hard rules as formulas over a domain.

    Attributes:
        possible: What holds for every request that can come.
        admits: Target to its clearance and tags.
    """

    domain: Domain
    possible: tuple[Formula, ...]
    admits: Mapping[str, tuple[Formula, ...]]
    constraints: tuple[RuleFormulas, ...]
    invariants: tuple[RuleFormulas, ...]
    preferences: tuple[Formula, ...]

    def may_answer(self, target: str, *, less: Iterable[int] = ()) -> list[Formula]:
        """What must hold for a target to be eligible by the policy; `less` leaves constraints out, by index."""
        left_out = frozenset(less)
        rules = (rule for index, rule in enumerate(self.constraints) if index not in left_out)
        return [*self.admits[target], *(negation(rule.excludes(target)) for rule in rules)]


def conditions_of(loaded: LoadedPolicy) -> Iterator[tuple[Policy, Expression]]:
    """Every condition of a policy, for its domain."""
    for rule in loaded.constraints:
        yield loaded.policy, parse(rule.when.source)
        if rule.require is not None:
            yield loaded.policy, parse(rule.require.source)
    for preference in loaded.preferences:
        yield loaded.policy, parse(preference.when.source)


def rulebook_of(loaded: LoadedPolicy, domain: Domain | None = None) -> Rulebook:
    """Turn a policy into formulas, over a domain of its own or one that it shares with others.

    Raises:
        TooManyCells: As `domain_of`.
    """
    policy = loaded.policy
    if domain is None:
        domain = domain_of([policy], conditions_of(loaded))
    rules = [_rule(rule, policy, domain) for rule in loaded.constraints]
    count = len(policy.constraints)
    return Rulebook(
        domain,
        possible=tuple(_possible(loaded, domain)),
        admits={name: tuple(_admits(loaded, name, domain)) for name in policy.targets},
        constraints=tuple(rules[:count]),
        invariants=tuple(rules[count:]),
        preferences=tuple(
            formula_of(parse(rule.when.source), domain, target_values(rule.target, policy.targets[rule.target]))
            for rule in loaded.preferences
        ),
    )


def _rule(rule: HardRule, policy: Policy, domain: Domain) -> RuleFormulas:
    when = formula_of(parse(rule.when.source), domain, {})
    if rule.require is None:
        permits = {name: constant(name not in rule.denied) for name in policy.targets}
    else:
        tree = parse(rule.require.source)
        permits = {
            name: formula_of(tree, domain, target_values(name, target)) for name, target in policy.targets.items()
        }
    return RuleFormulas(rule.id, when, permits)


def _admits(loaded: LoadedPolicy, name: str, domain: Domain) -> Iterator[Formula]:
    """Clearance and tags, of the label as it is sent: findings that are replaced by tokens are gone from it.

    A finding raises the class to its own, so what is found is of a class no higher than the request's; and only where
    one is of just the request's class can its replacement lower that.
    """
    promise = loaded.policy.targets[name]
    level = variable(domain.scalars[LEVEL_NAME])
    replaced = {tag: constant(int(loaded.label_rules.of_tag(tag))) for tag in promise.pseudonymize}
    lowered: list[Formula] = []
    for tag, index in domain.members[TAGS].items():
        present = variable(index)
        if tag in replaced:
            lowered.append(conjunction([present, apply(operator.eq, replaced[tag], level)]))
        if not promise.allows_tag(tag):
            gone = apply(operator.le, replaced[tag], level) if tag in replaced else FALSE
            yield disjunction([negation(present), gone])
    yield disjunction([apply(operator.le, level, constant(int(promise.clearance))), *lowered])


def _possible(loaded: LoadedPolicy, domain: Domain) -> Iterator[Formula]:
    defaults = loaded.deadline_defaults
    for name, default in ((TOTAL, defaults.total_ms), (TTFT, defaults.ttft_ms)):
        if default is not None and name in domain.scalars:
            yield apply(operator.lt, variable(domain.scalars[name]), constant(math.inf))
    if TTFT in domain.scalars:
        total, ttft = variable(domain.scalars[TOTAL]), variable(domain.scalars[TTFT])
        yield disjunction([apply(operator.eq, ttft, constant(math.inf)), apply(operator.le, ttft, total)])
