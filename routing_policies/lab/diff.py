"""What changes from one policy to another: where a target may answer and might not before, and the other way round.

Both are looked at over one domain, class by class, so a difference is found wherever there is one, with the smallest
request that shows it. Recorded traffic, where there is some, says how much of it is concerned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from routing_policies.lab.abstract_request import AbstractRequest
from routing_policies.lab.domain import LEVEL_NAME, domain_of
from routing_policies.lab.formula import Formula, apply, conjunction, constant, negation, variable
from routing_policies.lab.replay import Replayer, UnreadableRecord
from routing_policies.lab.rulebook import Rulebook, conditions_of, rulebook_of
from routing_policies.lab.search import MAX_CELLS, Effort, find
from routing_policies.lab.simulate import Decider
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.signals.label import DataClass


class Direction(StrEnum):
    """Looser: a target may answer that might not before, or data is protected less. Stricter: the other way round."""

    LOOSER = "looser"
    STRICTER = "stricter"


@dataclass(frozen=True, slots=True)
class Change:
    """A target that may answer requests of a class under one of the policies only.

    Attributes:
        example: The smallest such request.
    """

    direction: Direction
    target: str
    level: DataClass
    example: AbstractRequest


@dataclass(frozen=True, slots=True)
class Traffic:
    """Recorded requests that the policies treat otherwise.

    Attributes:
        concerned: Direction, target and class to how many.
        first: Who was asked first, who would be, and class to how many; of those for whom it is another.
        unknown: How many cannot be told, since the records know nothing of a target that might answer.
        unreadable: Records that are damaged or newer than this Tidegate; they are not among the requests.
    """

    requests: int
    concerned: Mapping[tuple[Direction, str, DataClass], int]
    first: Mapping[tuple[str | None, str | None, DataClass], int]
    unknown: int
    unreadable: int = 0

    @property
    def moved(self) -> int:
        """How many are asked of another target first."""
        return sum(self.first.values())


def compare(before: LoadedPolicy, after: LoadedPolicy, max_cells: int = MAX_CELLS) -> list[Change]:
    """Return every change, looser ones first, then by target and class.

    Raises:
        TooManyCells: They could not be compared; nothing is known then.
    """
    domain = domain_of([before.policy, after.policy], [*conditions_of(before), *conditions_of(after)])
    one, other = _Side.of(before, rulebook_of(before, domain)), _Side.of(after, rulebook_of(after, domain))
    effort = Effort(max_cells)
    looser = list(_changes(Direction.LOOSER, other, one, effort))
    return [*looser, *_changes(Direction.STRICTER, one, other, effort)]


@dataclass(frozen=True, slots=True)
class _Side:
    rulebook: Rulebook
    may_answer: Mapping[str, Formula]

    @classmethod
    def of(cls, loaded: LoadedPolicy, rulebook: Rulebook) -> _Side:
        """Invariants count too: they are enforced, though of a policy in force they exclude nothing."""
        return cls(
            rulebook,
            {
                name: conjunction(
                    [*rulebook.may_answer(name), *(negation(rule.excludes(name)) for rule in rulebook.invariants)]
                )
                for name in loaded.policy.targets
            },
        )


def _changes(direction: Direction, gains: _Side, lacks: _Side, effort: Effort) -> Iterator[Change]:
    domain = gains.rulebook.domain
    level_of = variable(domain.scalars[LEVEL_NAME])
    for name, gained in gains.may_answer.items():
        lacked = negation(lacks.may_answer[name]) if name in lacks.may_answer else constant(True)
        for level in DataClass:
            of_level = apply(lambda a, b: a == b, level_of, constant(int(level)))
            found = find(domain, [of_level, gained, lacked, *gains.rulebook.possible], effort)
            if found is not None:
                yield Change(direction, name, level, AbstractRequest.of(domain, found))


def weigh(before: LoadedPolicy, after: LoadedPolicy, records: Iterable[bytes]) -> Traffic:
    """Decide recorded requests, lines of a log, by both policies, and count those that are treated otherwise."""
    one, other = Decider(before), Decider(after)
    as_before, as_after = Replayer(before), Replayer(after)
    concerned: Counter[tuple[Direction, str, DataClass]] = Counter()
    first: Counter[tuple[str | None, str | None, DataClass]] = Counter()
    requests = unknown = unreadable = 0
    for line in records:
        try:
            as_was, replayed = as_before.replay(line), as_after.replay(line)
        except UnreadableRecord:
            unreadable += 1
            continue
        if as_was is None or replayed is None:
            continue
        was, now = one.decide(as_was), other.decide(replayed)
        requests += 1
        if was.unknown or now.unknown:
            unknown += 1
            continue
        level = replayed.view.label.level
        if was.order[:1] != now.order[:1]:
            first[next(iter(was.order), None), next(iter(now.order), None), level] += 1
        concerned.update((Direction.LOOSER, name, level) for name in set(now.order).difference(was.order))
        concerned.update((Direction.STRICTER, name, level) for name in set(was.order).difference(now.order))
    return Traffic(requests, dict(concerned), dict(first), unknown, unreadable)
