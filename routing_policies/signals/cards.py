"""Card numbers: where in a run of digits one stands, in one piece or cut by marks, and whether it is one.

Any other numbers written side by side look like a card's in one case of fifty, by range and check digit. So digits that
are cut count only in the groups that cards are printed in, one by one, or behind a word that says what they are; and
only where they are not a part of a longer row of numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from routing_policies.signals.detector import MARK, Candidate, Detector

# ISO/IEC 7812 ranges of the networks, and the lengths that they issue.
_ISSUED = re.compile(
    r"4[0-9]{15}(?:[0-9]{3})?|(?=[0-9]{16}\Z)(?:5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720)[0-9]+|3[47][0-9]{13}|"
    r"(?=(?:[0-9]{14}|[0-9]{16})\Z)(?:30[0-5]|3095|36|3[89])[0-9]+|"
    r"(?=[0-9]{16}(?:[0-9]{3})?\Z)(?:6011|64[4-9]|65|352[89]|35[3-8]|62)[0-9]+"
)
_CARD_WORDS = re.compile(
    rb"(?i)(?:\b|_|credit|debit|bank|master)cards?(?:\b|_)|credit|debit|visa|amex|maestro|(?:\b|_)(?:cc|pan)(?:\b|_)|"
    rb"carte|karte|tarjeta"
)
_DIGITS = re.compile(rb"[0-9]+")
_SHORTEST, _LONGEST = 12, 19
_PRINTED = frozenset({(4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4)})
_PRINTED_FIRST, _PRINTED_SIZES = 4, (3, 4, 5)
_PRINTED_MARKS = frozenset({b" ", b"-"})
_NUMBER_BEFORE = re.compile(rb"(?<![0-9A-Za-z])[0-9]+_\Z")
_NUMBER_AFTER = re.compile(rb"_[0-9]+(?![0-9A-Za-z])")
_DIGIT_SUM_OF_DOUBLE = bytes.maketrans(b"0123456789", b"0246813579")


def _cards_within(run: Candidate) -> Iterator[Candidate]:
    """Yield what may be a card in a run of digits with at most two marks between any two."""
    if _SHORTEST <= run.end - run.start <= _LONGEST and run.buffer[run.start : run.end].isdigit():
        yield run  # by far the commonest
        return
    groups = [match.span() for match in _DIGITS.finditer(run.buffer, max(run.start, run.text_start), run.end)]
    marks = [b"", *(run.buffer[a[1] : b[0]] for a, b in pairwise(groups)), b""]
    lengths = [end - start for start, end in groups]
    for first, length in enumerate(lengths):
        sizes = [1] if _SHORTEST <= length <= _LONGEST else []
        if length == _PRINTED_FIRST:
            sizes += [
                size
                for size in _PRINTED_SIZES
                if tuple(lengths[first : first + size]) in _PRINTED
                and _PRINTED_MARKS.issuperset(marks[first + 1 : first + size])
            ]
        if not sizes and first == 0 and _stands_alone(lengths, marks):
            sizes.append(len(lengths))
        if not sizes and marks[first] != marks[first + 1]:
            row = _row(lengths, marks, first)
            if len(row) > 1 and _may_be_one_number(row, run):
                sizes.append(len(row))
        for size in sizes:
            yield run._replace(start=groups[first][0], end=groups[first + size - 1][1])


def _stands_alone(lengths: Sequence[int], marks: Sequence[bytes]) -> bool:
    """Whether a whole run, whatever its marks, may be one number: grouped as printed, one by one, or cut by a line."""
    if len(lengths) > _LONGEST or not _SHORTEST <= sum(lengths) <= _LONGEST:
        return False
    return _is_card_like(lengths) or (len(lengths) == 2 and b"\n" in marks[1])


def _row(lengths: Sequence[int], marks: Sequence[bytes], first: int) -> Sequence[int]:
    """Return the lengths of all groups from the first on that one mark joins, or as many as are too long for a card."""
    end, total = first + 1, lengths[first]
    while end < len(lengths) and marks[end] == marks[first + 1] and total <= _LONGEST:
        total += lengths[end]
        end += 1
    return lengths[first:end]


def _may_be_one_number(lengths: Sequence[int], run: Candidate) -> bool:
    if not _SHORTEST <= sum(lengths) <= _LONGEST:
        return False
    has_thousands = lengths[0] <= 3 and set(lengths[1:]) == {3}
    return _is_card_like(lengths) or (not has_thousands and run.follows(_CARD_WORDS))


def _is_card_like(lengths: Sequence[int]) -> bool:
    return tuple(lengths) in _PRINTED or set(lengths) == {1}


def _is_card(candidate: Candidate) -> bool:
    digits = candidate.digits
    if not _passes_luhn(digits) or digits == digits[0] * len(digits) or _is_inside_longer_token(candidate):
        return False
    return _ISSUED.fullmatch(digits) is not None or candidate.follows(_CARD_WORDS)


def _passes_luhn(number: str) -> bool:
    """Check the sum of ISO/IEC 7812-1, annex B, ten times as fast as stdnum's: long numbers abound in logs."""
    digits = number.encode()
    doubled = digits[-2::-2].translate(_DIGIT_SUM_OF_DOUBLE)
    return (sum(digits[-1::-2]) + sum(doubled) - len(digits) * ord("0")) % 10 == 0


def _is_inside_longer_token(candidate: Candidate) -> bool:
    """Letters may be glued to a card, as in `cardno4111...`; beyond them no more digits, as hashes and ids have."""
    buffer, start, end = candidate.buffer, candidate.start, candidate.end
    return (
        candidate.is_glued_to_digits()
        or candidate.is_inside_longer_token()
        or (buffer[start - 1 : start] == b"_" and _NUMBER_BEFORE.search(candidate.before) is not None)
        or (buffer[end : end + 1] == b"_" and _NUMBER_AFTER.match(candidate.after) is not None)
    )


def _is_joined_card(candidate: Candidate) -> bool:
    digits = candidate.digits
    return _passes_luhn(digits) and digits != digits[0] * len(digits) and _ISSUED.fullmatch(digits) is not None


CARD = Detector("card", "pci", rf"[0-9](?:{MARK}{{0,2}}[0-9]){{{_SHORTEST - 1},}}", _is_card, within=_cards_within)
JOINED_CARDS = (
    Detector("card", "pci", r"[0-9]{4}(?:[ -]?[0-9]{4}){3}", _is_joined_card, overlapping=True),
    Detector("card", "pci", r"3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5}", _is_joined_card, overlapping=True),
)
"""In text that has lost its spaces: a printed number, whatever digits it has run into."""
