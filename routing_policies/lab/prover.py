"""Proves a policy's invariants: no request that can come makes a target eligible that breaks one.

A proof looks at every abstract request there is (`domain`), so an invariant holds if and only if no counterexample is
found. Where there are too many to look at, nothing is proved, and that is said.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from routing_policies.lab.abstract_request import AbstractRequest
from routing_policies.lab.domain import TooManyCells
from routing_policies.lab.formula import negation
from routing_policies.lab.rulebook import Rulebook, RuleFormulas, rulebook_of
from routing_policies.lab.search import MAX_CELLS, Effort, find
from routing_policies.policy.loaded import LoadedPolicy

_KEPT = 32


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A request that breaks an invariant, were it not for its enforcement at run time.

    Attributes:
        target: Who would be eligible.
    """

    request: AbstractRequest
    target: str

    def sent(self, loaded: LoadedPolicy) -> dict[str, Any]:
        """The request as it would be sent; see `AbstractRequest.sent`."""
        return self.request.sent(loaded.label_rules, self.request.replaced(loaded.policy, self.target))


@dataclass(frozen=True, slots=True)
class Finding:
    """What is known of one invariant.

    Attributes:
        holds: `None` where it could not be told.
        cells: Abstract requests, whole and in part, that were looked at.
        counterexample: The smallest, where it does not hold.
        why_open: Why it could not be told.
    """

    invariant: str
    holds: bool | None
    cells: int
    counterexample: Counterexample | None = None
    why_open: str | None = None

    def in_words(self) -> str:
        """The finding for a person."""
        if self.holds:
            return f"holds ({self.cells} cells)"
        if self.counterexample is None:
            return f"not proved: too many cells ({self.why_open}); fewer or simpler conditions need fewer"
        found = self.counterexample
        return f"does not hold: {found.target} may answer a request with {found.request.in_words()}"


@dataclass(frozen=True, slots=True)
class Proof:
    """What is known of all invariants, in the policy's order."""

    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether every invariant was proved."""
        return all(finding.holds is True for finding in self.findings)


class Prover:
    """Proves policies, and remembers the last ones by digest."""

    def __init__(self, max_cells: int = MAX_CELLS) -> None:
        """Look at `max_cells` at most for each invariant and target."""
        self._max_cells = max_cells
        self._known: OrderedDict[str, Proof] = OrderedDict()

    def prove(self, loaded: LoadedPolicy) -> Proof:
        """Prove every invariant of a policy, or find its smallest counterexample."""
        known = self._known.get(loaded.digest)
        if known is None:
            known = self._known[loaded.digest] = _prove(loaded, self._max_cells)
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return known


def _prove(loaded: LoadedPolicy, max_cells: int) -> Proof:
    if not loaded.policy.invariants:
        return Proof(())
    try:
        rulebook = rulebook_of(loaded)
    except TooManyCells as exc:
        return Proof(tuple(Finding(rule.id, None, 0, why_open=str(exc)) for rule in loaded.policy.invariants))
    return Proof(tuple(_finding(rulebook, rule, max_cells) for rule in rulebook.invariants))


def _finding(rulebook: Rulebook, invariant: RuleFormulas, max_cells: int) -> Finding:
    cells = 0
    for target, permits in invariant.permits.items():
        effort = Effort(max_cells)
        wanted = [invariant.when, negation(permits), *rulebook.may_answer(target), *rulebook.possible]
        try:
            found = find(rulebook.domain, wanted, effort)
        except TooManyCells as exc:
            return Finding(invariant.id, None, cells + effort.spent, why_open=str(exc))
        cells += effort.spent
        if found is not None:
            request = AbstractRequest.of(rulebook.domain, found)
            return Finding(invariant.id, False, cells, Counterexample(request, target))
    return Finding(invariant.id, True, cells)
