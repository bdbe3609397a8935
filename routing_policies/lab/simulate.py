"""Replays recorded decisions through a candidate policy: who would have been asked, at what price, and how soon.

The records say what each target was predicted to take, so this is no guess about traffic; what they cannot say, such as
anything of a target that was not there, is counted as not identifiable and never made up.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from routing_policies.budget import Budget
from routing_policies.decide import Leaning, rank
from routing_policies.eligibility import Eligibility, find_eligible
from routing_policies.lab.bootstrap import Estimate, estimate
from routing_policies.lab.domain import target_values
from routing_policies.lab.mentions import Mentions
from routing_policies.lab.replay import ABLE, Replayed, Replayer, UnreadableRecord
from routing_policies.lab.rulebook import conditions_of
from routing_policies.policy.conditions import Evaluation
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.model import Late
from routing_policies.policy.names import NUMBER, TOKENS
from routing_policies.snapshot import Health, Snapshot, TargetSnapshot
from routing_policies.terms import price_of, rate_targets

NOBODY = "(refused)"


class Again(NamedTuple):
    """One recorded request, decided again.

    Attributes:
        order: The eligible targets, best first.
        unknown: Targets that the records know nothing of and that might have answered.
        in_budget: The probability that the first of them is in time, where it was worked out.
    """

    order: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    in_budget: float | None = None


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a candidate would have done.

    Attributes:
        replayed: Records that the figures are about.
        unreadable: Decision records that could not be read.
        not_identifiable: Target that the records know nothing of, to the requests that might have gone there.
        assumed: What older records lack, to how many lack it.
        before: Target to its share, as recorded.
        shares: Target to its share under the candidate.
        cost: Price of an answered request, in the candidate's currency, or `None` where it is not identifiable.
        in_budget: Probability to answer inside the budget, of requests that have one; likewise.
        looser: Requests that some target might answer and might not before.
        stricter: Requests that some target might answer before and no longer.
        moved: Requests that would have been asked of another target first.
    """

    replayed: int
    unreadable: int
    not_identifiable: Mapping[str, int]
    assumed: Mapping[str, int]
    before: Mapping[str, Estimate]
    shares: Mapping[str, Estimate]
    cost: Estimate | None
    in_budget: Estimate | None
    looser: int
    stricter: int
    moved: int


class Decider:
    """Decides recorded requests by one policy, and looks at its rules once for all that they do not tell apart."""

    def __init__(self, policy: LoadedPolicy) -> None:
        """Prepare for a policy."""
        self._policy = policy
        mentions = Mentions()
        for _, tree in conditions_of(policy):
            for name in policy.policy.targets:
                mentions.add(tree, target_values(name, policy.policy.targets[name]))
        linked = {name for pair in mentions.links for name in pair}
        cuts = {name: sorted(numbers) for name, numbers in mentions.numbers.items() if name not in linked}
        read = policy.vocabulary.request
        self._token_cuts = cuts.get("size.tokens", []) if any(known.type is TOKENS for known in read) else None
        self._numbers = [(known.read, cuts.get(known.name)) for known in read if known.type is NUMBER]
        self._words = [known.read for known in read if known.type not in (NUMBER, TOKENS) and _stands_alone(known.name)]
        self._looks_at_tenant = any(known.name.startswith("tenant.") for known in read)
        # The request is kept beside what was found for it, so that none of its parts' ids comes to mean another part.
        self._known: dict[tuple[Any, ...], tuple[Eligibility, Leaning, Replayed]] = {}

    def decide(self, replayed: Replayed) -> Again:
        """Decide one request again."""
        policy, view, snapshot = self._policy, replayed.view, replayed.snapshot
        unheard = [name for name in policy.policy.targets if name not in snapshot.targets]
        if unheard:
            hoped = {name: TargetSnapshot(name, Health.UP, ABLE) for name in unheard}
            snapshot = Snapshot({**snapshot.targets, **hoped}, snapshot.now, snapshot.seed)
        found, leaning, _ = self._rules(replayed, snapshot)
        unknown = tuple(name for name in found.targets if name in unheard)
        if unknown:
            return Again((), unknown)
        if len(found.targets) < 2 and policy.policy.defaults.late is not Late.REFUSE:
            return Again(found.targets)  # no score changes that
        budget = Budget.left(view.deadline, snapshot.now)
        terms = rate_targets(policy, view, snapshot, budget, found.targets, leaning.by_target)
        order = rank(policy, terms)[0]
        known = budget.exists and order and "deadline" not in terms[order[0]].missing
        return Again(tuple(order), in_budget=terms[order[0]].deadline if known else None)

    def _rules(self, replayed: Replayed, snapshot: Snapshot) -> tuple[Eligibility, Leaning, Replayed]:
        key = self._cell(replayed, snapshot)
        known = self._known.get(key)
        if known is None:
            evaluation = Evaluation.of_request(self._policy.vocabulary, replayed.view, snapshot)
            found = find_eligible(self._policy, replayed.view, snapshot, evaluation)
            known = self._known[key] = found, Leaning.of(self._policy, evaluation), replayed
        return known

    def _cell(self, replayed: Replayed, snapshot: Snapshot) -> tuple[Any, ...]:
        """Everything that rules and abilities can tell requests apart by; parts that are alike are one object."""
        view = replayed.view
        tokens, needed = view.size.tokens, view.size.tokens.most + view.reserved_output
        cell: list[Any] = [id(view.label), id(view.needs), id(replayed.states)]
        for state in replayed.states.values():
            window = state.can.window
            cell.append(window is not None and needed > window)
        if self._looks_at_tenant:
            cell.append(id(view.tenant))
        if self._token_cuts is not None:
            cell += [_gap(self._token_cuts, count) for count in (tokens.least, tokens.likely, tokens.most)]
        for read, cuts in self._numbers:
            value = read(view, snapshot)
            cell.append(value if cuts is None else _gap(cuts, value))
        cell += [read(view, snapshot) for read in self._words]
        return tuple(cell)


def _stands_alone(name: str) -> bool:
    """Whether a name is of no part that is compared as a whole."""
    return not name.startswith(("label.", "tenant."))


def _gap(cuts: list[float], value: float) -> int:
    """Which literal a number is, or which two it lies between."""
    at = bisect_left(cuts, value)
    return 2 * at + (at < len(cuts) and cuts[at] == value)


@dataclass(slots=True)
class _Tally:
    first: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    cost: array[float] = field(default_factory=lambda: array("d"))
    in_budget: array[float] = field(default_factory=lambda: array("d"))
    unreadable: int = 0
    not_identifiable: Counter[str] = field(default_factory=Counter)
    assumed: Counter[str] = field(default_factory=Counter)
    looser: int = 0
    stricter: int = 0
    moved: int = 0

    def take(self, policy: LoadedPolicy, replayed: Replayed, again: Again) -> None:
        if replayed.assumed:
            self.assumed.update(replayed.assumed)
        if again.unknown:
            self.not_identifiable.update(again.unknown)
            return
        first = again.order[0] if again.order else NOBODY
        before = replayed.eligible[0] if replayed.eligible else NOBODY
        self.first.append(first)
        self.before.append(before)
        if again.order != replayed.eligible:
            self.looser += not set(again.order).issubset(replayed.eligible)
            self.stricter += not set(replayed.eligible).issubset(again.order)
            self.moved += first != before
        self.cost.append(_cost(policy, replayed, first))
        self.in_budget.append(_in_budget(replayed, first) if again.in_budget is None else again.in_budget)


def simulate(policy: LoadedPolicy, records: Iterable[bytes]) -> Simulation:
    """Replay the decisions among the lines of a log of records through a policy; they come in the order of time."""
    decider, replayer, tally = Decider(policy), Replayer(policy), _Tally()
    for line in records:
        try:
            replayed = replayer.replay(line)
        except UnreadableRecord:
            tally.unreadable += 1
            continue
        if replayed is not None:
            tally.take(policy, replayed, decider.decide(replayed))
    return Simulation(
        replayed=len(tally.first),
        unreadable=tally.unreadable,
        not_identifiable=dict(tally.not_identifiable),
        assumed=dict(tally.assumed),
        before=_shares(tally.before),
        shares=_shares(tally.first),
        cost=estimate(tally.cost),
        in_budget=estimate(tally.in_budget),
        looser=tally.looser,
        stricter=tally.stricter,
        moved=tally.moved,
    )


def _shares(firsts: list[str]) -> dict[str, Estimate]:
    found = {name: estimate([1.0 if first == name else 0.0 for first in firsts]) for name in dict.fromkeys(firsts)}
    return {name: share for name, share in sorted(found.items()) if share is not None}


def _cost(policy: LoadedPolicy, replayed: Replayed, target: str) -> float:
    """What an answer would have cost: NaN where there is none, or no price is declared."""
    if target == NOBODY:
        return math.nan
    prediction = replayed.snapshot.targets[target].prediction
    price = price_of(policy.policy.targets[target], replayed.view, prediction)
    return math.nan if price is None else price


def _in_budget(replayed: Replayed, target: str) -> float:
    """The probability that it would have been in time: NaN without a budget, or where nothing was predicted."""
    budget = Budget.left(replayed.view.deadline, replayed.snapshot.now)
    if not budget.exists:
        return math.nan
    if target == NOBODY:
        return 0.0
    prediction = replayed.snapshot.targets[target].prediction
    return math.nan if prediction is None else budget.probability(prediction)
