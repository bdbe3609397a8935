"""A few texts and numbers that stand for all: one for each way in which the conditions can tell them apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from routing_policies.lab.mentions import TextMarks

MAX_TEXTS = 256


class TooManyCells(Exception):
    """There are too many cases to look at. Nothing is known then; above all not that there is nothing to find."""


def texts(marks: Iterable[TextMarks], likely: Iterable[str], variants: int) -> tuple[str, ...]:
    """Return texts that realise every combination of answers about texts that are compared as a whole or in part.

    A text that is none of the exact ones is told apart by the longest prefix and suffix that it has and by the parts
    that it holds. A character of none of them, put between these, makes a text with just these; writing it more than
    once makes others of the same kind.

    Args:
        marks: What the texts are compared with.
        likely: Texts to begin with.
        variants: How many different texts of each kind are needed, for names that are compared with each other.

    Raises:
        TooManyCells: There are more than `MAX_TEXTS`.
    """
    all_marks = list(marks)
    exact = sorted(set().union(*(mark.exact for mark in all_marks)))
    prefixes = ["", *sorted(set().union(*(mark.prefixes for mark in all_marks)) - {""})]
    suffixes = ["", *sorted(set().union(*(mark.suffixes for mark in all_marks)) - {""})]
    parts = sorted(set().union(*(mark.parts for mark in all_marks)) - {""})
    filler = _filler([*exact, *prefixes, *suffixes, *parts])
    if len(prefixes) * len(suffixes) * 2 ** len(parts) * variants + len(exact) > MAX_TEXTS:
        raise TooManyCells(f"a text is told apart in more than {MAX_TEXTS} ways")
    found = [*likely, *exact]
    for count in range(1, variants + 1):
        between = filler * count
        for prefix, suffix in itertools.product(prefixes, suffixes):
            for size in range(len(parts) + 1):
                for inside in itertools.combinations(parts, size):
                    found.append(prefix + between + "".join(part + between for part in inside) + suffix)
    return tuple(dict.fromkeys(found))


def _filler(literals: Sequence[str]) -> str:
    used = set().union(*literals)
    return next(
        char for char in map(chr, itertools.chain(range(0x61, 0x7B), itertools.count(0x100))) if char not in used
    )


def numbers(literals: Iterable[float], likely: float, *, whole: bool, apart: int, beside_whole: bool) -> list[float]:
    """Return numbers on, between and beyond the literals, `apart` of them in each gap, the likely one's gap first.

    Args:
        literals: What the numbers are compared with.
        likely: The number to choose where it does not matter, not below zero.
        whole: Whether they are whole and not below zero.
        apart: How many numbers are compared with each other, these included: so many can differ within one gap.
        beside_whole: Whether whole ones are among those; others must be able to lie between them.
    """
    finite = {literal for literal in literals if math.isfinite(literal)}
    cuts = sorted(finite | {0.0} if whole or beside_whole else finite)
    gaps = list(itertools.pairwise([-math.inf, *cuts, math.inf]))
    found: list[float] = list(cuts)
    for low, high in gaps:
        steps = list(itertools.islice(_whole_between(low, high), apart)) if whole or beside_whole else []
        found += steps
        if not whole:
            for inner_low, inner_high in itertools.pairwise([low, *steps, high]):
                found += _between(inner_low, inner_high, likely, apart)
    if whole:
        found = [number for number in found if number == math.floor(number) and number >= 0]
    if apart == 1:
        found = [likely if _same_gap(number, likely, cuts) else number for number in found]
    found = list(dict.fromkeys(int(number) if whole else number for number in found))
    return sorted(found, key=lambda number: (not _same_gap(number, likely, cuts), abs(number - likely)))


def _whole_between(low: float, high: float) -> Iterator[float]:
    if low == -math.inf:
        return
    number = math.floor(low) + 1
    while number < high:
        yield float(number)
        number += 1


def _between(low: float, high: float, likely: float, count: int) -> Iterator[float]:
    if low == -math.inf and high == math.inf:
        yield from (likely + step for step in range(count))
    elif high == math.inf:
        yield from (low + step for step in range(1, count + 1))
    elif low == -math.inf:
        # Rather above zero, where budgets are.
        yield from _between(0.0, high, likely, count) if high > 0 else (high - step for step in range(count, 0, -1))
    else:
        exact = [low + (high - low) * step / (count + 1) for step in range(1, count + 1)]
        rounded = [float(round(number)) for number in exact]
        fits = len(set(rounded)) == count and low < rounded[0] and rounded[-1] < high
        yield from rounded if fits else exact


def _same_gap(number: float, likely: float, cuts: Sequence[float]) -> bool:
    """Whether no cut lies at or between the two."""
    low, high = min(number, likely), max(number, likely)
    return not any(low <= cut <= high for cut in cuts) or number == likely
