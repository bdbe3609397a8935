"""Looks for an abstract request that fulfils a set of formulas; finding none is a proof that there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from routing_policies.lab.domain import Domain, TooManyCells
from routing_policies.lab.formula import Formula

MAX_CELLS = 200_000


@dataclass(slots=True)
class Effort:
    """How many cells may still be looked at, over all searches that share it."""

    left: int = MAX_CELLS
    spent: int = 0

    def spend(self) -> None:
        """Account for one cell.

        Raises:
            TooManyCells: None is left.
        """
        if self.left <= 0:
            raise TooManyCells(f"more than {self.spent} cells")
        self.left -= 1
        self.spent += 1


def find(domain: Domain, formulas: Sequence[Formula], effort: Effort) -> list[Any] | None:
    """Return the smallest request that fulfils all formulas, or `None` where there is none.

    Smallest: no single thing that it says could be left out, or be said in a more ordinary way.

    Raises:
        TooManyCells: The effort was not enough to tell.
    """
    wanted = [formula for formula in formulas if formula.constant is not True]
    if any(formula.constant is False for formula in wanted):
        return None
    chosen: list[Any] = [None] * len(domain.variables)
    orders = list(_orders(wanted))
    for order in orders:
        if not _choose(domain, wanted, order, chosen, effort):
            return None
    found = [value if value is not None else domain.variables[i].values[0] for i, value in enumerate(chosen)]
    _shrink(domain, wanted, [index for order in orders for index in order], found)
    return found


def _choose(
    domain: Domain, formulas: Sequence[Formula], order: Sequence[int], chosen: list[Any], effort: Effort
) -> bool:
    """Choose values for the variables in order; turn back where a formula can no longer hold."""
    touched = [[formula.of for formula in formulas if index in formula.reads] for index in order]

    def choose(depth: int) -> bool:
        if depth == len(order):
            return True
        index = order[depth]
        for value in domain.variables[index].values:
            effort.spend()
            chosen[index] = value
            if all(of(chosen) is not False for of in touched[depth]) and choose(depth + 1):
                return True
        chosen[index] = None
        return False

    return choose(0)


def _orders(formulas: Sequence[Formula]) -> Iterator[list[int]]:
    """The variables in groups that no formula joins, each begun with its first formula, then whatever is nearest."""
    waiting = list(formulas)
    while waiting:
        order: list[int] = sorted(waiting.pop(0).reads)
        while joined := [formula for formula in waiting if not formula.reads.isdisjoint(order)]:
            nearest = min(joined, key=lambda formula: len(formula.reads.difference(order)))
            order += sorted(nearest.reads.difference(order))
            waiting.remove(nearest)
        yield order


def _shrink(domain: Domain, formulas: Sequence[Formula], order: Sequence[int], found: list[Any]) -> None:
    again = True
    while again:
        again = False
        for index in order:
            values = domain.variables[index].values
            for value in values[: values.index(found[index])]:
                before, found[index] = found[index], value
                if all(formula.of(found) for formula in formulas):
                    again = True
                    break
                found[index] = before
