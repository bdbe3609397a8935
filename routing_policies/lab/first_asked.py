"""Who is asked first by one policy and by another, over all requests, class by class.

Who may answer hangs on the policy alone; who is asked first also on the state of the targets. It is compared at a
neutral one: every target is up and able, nothing is predicted of any, so that what needs a prediction counts for all
alike, and a request that no condition asks for its size has an ordinary one. What is really predicted moves others;
recorded traffic, where there is some, says how many (`lab.diff.weigh`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from routing_policies.budget import Budget
from routing_policies.decide import rank
from routing_policies.lab.abstract_request import AbstractRequest
from routing_policies.lab.diff import Direction
from routing_policies.lab.domain import LEVEL_NAME, TAGS, Domain, domain_of
from routing_policies.lab.formula import Formula, apply, conjunction, constant, negation, variable
from routing_policies.lab.rulebook import Rulebook, conditions_of, rulebook_of
from routing_policies.lab.search import Effort, find
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.signals.label import DataClass
from routing_policies.snapshot import Capabilities, Health, Snapshot, TargetSnapshot
from routing_policies.terms import rate_targets

# What tells targets apart of a request, where a condition makes it vary: without predictions, a budget counts for all
# of them alike.
_RATED = (LEVEL_NAME, "size.tokens", "request.output_cap")
# An order hangs on more than permission does, so more has to be looked at before it is known.
MAX_CELLS = 1_000_000
_ABLE = Capabilities(served_model="")


@dataclass(frozen=True, slots=True)
class Move:
    """Requests of a class that are asked of another target first.

    Attributes:
        direction: Looser where they go off the device and did not, stricter the other way round; `None` for neither.
        before: Who was asked; `None` where nobody might answer.
        example: The smallest such request.
    """

    direction: Direction | None
    before: str | None
    after: str | None
    level: DataClass
    example: AbstractRequest


def compare_first(before: LoadedPolicy, after: LoadedPolicy, max_cells: int = MAX_CELLS) -> list[Move]:
    """Return every move, looser ones first, then stricter ones, then by target and class.

    Raises:
        TooManyCells: They could not be compared; nothing is known then.
    """
    domain = domain_of([before.policy, after.policy], [*conditions_of(before), *conditions_of(after)])
    one, other = _Ranking(before, rulebook_of(before, domain)), _Ranking(after, rulebook_of(after, domain))
    moves = list(_moves(one, other, domain, Effort(max_cells)))
    order = [Direction.LOOSER, Direction.STRICTER, None]
    return sorted(moves, key=lambda move: order.index(move.direction))


def _moves(one: _Ranking, other: _Ranking, domain: Domain, effort: Effort) -> Iterator[Move]:
    level_of = variable(domain.scalars[LEVEL_NAME])
    possible = (*one.rulebook.possible, *other.rulebook.possible)
    for was in one.anybody:
        for now in other.anybody:
            if was == now:
                continue
            for level in DataClass:
                of_level = apply(lambda a, b: a == b, level_of, constant(int(level)))
                found = find(domain, [of_level, *one.first(was), *other.first(now), *possible], effort)
                if found is not None:
                    example = AbstractRequest.of(domain, found)
                    yield Move(_direction(one, was, other, now), was, now, level, example)


def _direction(one: _Ranking, was: str | None, other: _Ranking, now: str | None) -> Direction | None:
    left, leaves = one.leaves_device(was), other.leaves_device(now)
    if left == leaves:
        return None
    return Direction.LOOSER if leaves else Direction.STRICTER


class _Ranking:
    """A policy's order of targets, as formulas over a domain."""

    def __init__(self, loaded: LoadedPolicy, rulebook: Rulebook) -> None:
        self.rulebook = rulebook
        self._loaded = loaded
        self._may = {
            name: conjunction(
                [*rulebook.may_answer(name), *(negation(rule.excludes(name)) for rule in rulebook.invariants)]
            )
            for name in loaded.policy.targets
        }
        self._snapshot = Snapshot(
            {name: TargetSnapshot(name, Health.UP, _ABLE) for name in loaded.policy.targets}, now=0.0
        )

    @property
    def anybody(self) -> Sequence[str | None]:
        """Who can be first: every target, and nobody."""
        return [*self._may, None]

    def leaves_device(self, name: str | None) -> bool:
        """Whether what is asked there first leaves the device."""
        return name is not None and not self._loaded.policy.targets[name].on_device

    def first(self, name: str | None) -> list[Formula]:
        """What must hold for a target to be asked first; for nobody, that no target may answer."""
        if name is None:
            return [negation(may) for may in self._may.values()]
        reads = self._rated.union(*(formula.reads for formula in (*self._may.values(), *self.rulebook.preferences)))
        return [self._may[name], Formula(self._is_first(name), reads)]

    @property
    def _rated(self) -> frozenset[int]:
        """The variables that the terms read."""
        domain = self.rulebook.domain
        found = {domain.scalars[name] for name in _RATED if name in domain.scalars}
        replaced = {tag for target in self._loaded.policy.targets.values() for tag in target.pseudonymize}
        return frozenset(found.union(index for tag, index in domain.members[TAGS].items() if tag in replaced))

    def _is_first(self, name: str) -> Callable[[Sequence[Any]], bool | None]:
        rated = self._rated

        def value(chosen: Sequence[Any]) -> bool | None:
            eligible = {each: may.of(chosen) for each, may in self._may.items()}
            if eligible[name] is False:
                return False
            applies = [formula.of(chosen) for formula in self.rulebook.preferences]
            if None in eligible.values() or None in applies or any(chosen[index] is None for index in rated):
                return None
            return self._best(name, [each for each, may in eligible.items() if may], chosen) == name

        return value

    def _best(self, name: str, eligible: Sequence[str], chosen: Sequence[Any]) -> str:
        """Rate as it is really done; what the target replaces, where it may, is taken as found and not declared."""
        if len(eligible) == 1:
            return name
        variables = self.rulebook.domain.variables
        whole = [each.values[0] if value is None else value for each, value in zip(variables, chosen, strict=True)]
        view = AbstractRequest.of(self.rulebook.domain, whole).view(self._loaded.policy, name)
        budget = Budget.left(view.deadline, self._snapshot.now)
        terms = rate_targets(self._loaded, view, self._snapshot, budget, eligible, self._preferred(chosen))
        return rank(self._loaded, terms)[0][0]

    def _preferred(self, chosen: Sequence[Any]) -> dict[str, float]:
        added: dict[str, float] = {}
        for rule, applies in zip(self._loaded.preferences, self.rulebook.preferences, strict=True):
            if applies.of(chosen):
                added[rule.target] = added.get(rule.target, 0.0) + rule.weight
        return added
