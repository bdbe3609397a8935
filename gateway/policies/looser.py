"""In what a policy is looser than another: a target may answer that might not before, or data is protected less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from routing_policies.lab.diff import Change, Direction, compare
from routing_policies.lab.domain import TooManyCells
from routing_policies.lab.handling import compare_handling
from routing_policies.policy.loaded import LoadedPolicy


@dataclass(frozen=True, slots=True)
class Loosening:
    """One thing that is looser.

    Attributes:
        words: It in a line, for a person.
        target: Who may answer that might not before; `None` where it is about how data is handled, or is unknown.
        data_class: Of the requests that are concerned.
        example: The smallest such request: headers, body and caller, to be pasted into `tidegate policy explain`.
    """

    words: str
    target: str | None = None
    data_class: str | None = None
    example: dict[str, Any] | None = None


def loosenings(before: LoadedPolicy | None, after: LoadedPolicy) -> tuple[Loosening, ...]:
    """Return in what a policy is looser than the one before it.

    What cannot be compared counts as looser, and so does anything after nothing: then nothing might be answered.
    """
    if before is None:
        return (Loosening("there is no policy before it to compare it with"),)
    handled = [
        Loosening(change.in_words())
        for change in compare_handling(before, after)
        if change.direction is Direction.LOOSER
    ]
    try:
        changes = compare(before, after)
    except TooManyCells as exc:
        return (*handled, Loosening(f"it could not be compared with the one before: too many cells ({exc})"))
    return (*handled, *(_loosening(change, after) for change in changes if change.direction is Direction.LOOSER))


def _loosening(change: Change, after: LoadedPolicy) -> Loosening:
    request = change.example
    return Loosening(
        f"{change.target} may answer a request with {request.in_words()}",
        change.target,
        change.level.word,
        request.sent(after.label_rules, request.replaced(after.policy, change.target)),
    )
