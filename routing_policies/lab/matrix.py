"""Which class of data, with which tag, may go to which target, and why not: for people who read no conditions."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from routing_policies.lab.domain import LEVEL_NAME, TAGS
from routing_policies.lab.formula import Formula, apply, conjunction, constant, negation, variable
from routing_policies.lab.rulebook import Rulebook, rulebook_of
from routing_policies.lab.search import MAX_CELLS, Effort, find
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.model import Findings
from routing_policies.signals.label import DataClass


class Answer(StrEnum):
    """Whether a target may answer."""

    YES = "yes"
    DEPENDS = "depends"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Cell:
    """One class, one tag or none, one target.

    Attributes:
        reason: One clause for a person.
        rules: The rules that exclude it, sometimes or always.
        promise: Which of its own promises excludes it: `clearance` or `tag`.
    """

    answer: Answer
    reason: str
    rules: tuple[str, ...] = ()
    promise: str | None = None

    def in_brief(self) -> str:
        """For a narrow table."""
        why = self.promise or ", ".join(self.rules)
        return f"{self.answer}: {why}" if why else self.answer.value


@dataclass(frozen=True, slots=True)
class Row:
    """One class with one tag, or with none (`None`)."""

    level: DataClass
    tag: str | None
    cells: Mapping[str, Cell]


def matrix_of(loaded: LoadedPolicy, max_cells: int = MAX_CELLS) -> list[Row]:
    """Return a row for each class and each tag that the policy knows, the lowest class first.

    Raises:
        TooManyCells: There are too many cases to tell.
    """
    return list(_Matrix(loaded, rulebook_of(loaded), Effort(max_cells)).rows())


@dataclass(frozen=True, slots=True)
class _Matrix:
    loaded: LoadedPolicy
    rulebook: Rulebook
    effort: Effort

    def rows(self) -> Iterator[Row]:
        for level in DataClass:
            for tag in (None, *self._tags()):
                fixed = list(self._fixed(level, tag))
                cells = {name: self._cell(name, level, tag, fixed) for name in self.loaded.policy.targets}
                yield Row(level, tag, cells)

    def _tags(self) -> list[str]:
        """Those of detectors, then those that the policy mentions."""
        mentioned = [tag for target in self.loaded.policy.targets.values() for tag in target.tags_allowed or ()]
        return list(dict.fromkeys([*Findings().by_tag(), *mentioned]))

    def _fixed(self, level: DataClass, tag: str | None) -> Iterator[Formula]:
        domain = self.rulebook.domain
        yield apply(operator.eq, variable(domain.scalars[LEVEL_NAME]), constant(int(level)))
        for item, index in domain.members[TAGS].items():
            yield variable(index) if item == self._stand_in(tag) else negation(variable(index))

    def _stand_in(self, tag: str | None) -> str | None:
        """A tag that nothing mentions is one of the others, which no condition tells apart."""
        known = self.rulebook.domain.members[TAGS]
        return tag if tag is None or tag in known else list(known)[-1]

    def _cell(self, target: str, level: DataClass, tag: str | None, fixed: list[Formula]) -> Cell:
        refused = self._by_promise(target, level, tag, fixed)
        if refused is not None:
            return refused
        rules = [rule for rule in self.rulebook.constraints if self._possible(rule.excludes(target), *fixed)]
        # Of a policy that holds, invariants exclude nothing that constraints leave.
        left = [*fixed, *(negation(rule.excludes(target)) for rule in rules)]
        rules += [rule for rule in self.rulebook.invariants if self._possible(rule.excludes(target), *left)]
        always = [rule for rule in rules if not self._possible(negation(rule.excludes(target)), *fixed)]
        if always:
            return Cell(Answer.NO, f"excluded by the rule {always[0].id}", (always[0].id,))
        ids = tuple(rule.id for rule in rules)
        if not rules:
            replaced = tag in self.loaded.policy.targets[target].pseudonymize
            return Cell(Answer.YES, "may answer; what was found is sent as tokens" if replaced else "may answer")
        if self._possible(*fixed, *(negation(rule.excludes(target)) for rule in rules)):
            return Cell(Answer.DEPENDS, f"may answer, but not where {self._in_words(ids)}", ids)
        return Cell(Answer.NO, f"at any time {self._in_words(ids)}", ids)

    def _by_promise(self, target: str, level: DataClass, tag: str | None, fixed: list[Formula]) -> Cell | None:
        if self._possible(*fixed, *self.rulebook.admits[target]):
            return None
        promise = self.loaded.policy.targets[target]
        if tag is not None and not promise.allows_tag(tag) and level <= promise.clearance:
            return Cell(Answer.NO, f"may not be sent data tagged {tag}", promise="tag")
        return Cell(Answer.NO, f"is cleared for {promise.clearance.word} data at most", promise="clearance")

    def _possible(self, *formulas: Formula) -> bool:
        wanted = [conjunction(formulas), *self.rulebook.possible]
        return find(self.rulebook.domain, wanted, self.effort) is not None

    @staticmethod
    def _in_words(ids: tuple[str, ...]) -> str:
        return f"the rule {ids[0]} excludes it" if len(ids) == 1 else f"one of the rules {', '.join(ids)} excludes it"
