"""What a detector is: a pattern that proposes, and a check that decides from the value and what stands around it.

Patterns are RE2's (no look-around, linear in the text) over folded ASCII. They name the characters they accept and
never those they refuse, so that none can run from one part of a request into the next. A capturing group, where there
is one, is the value. A new kind is one more row in a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

# What may stand between the digits of a number: white space and the ASCII signs that are no letter, digit or control.
MARK = r"[\t-\r -/:-@\x5b-`{-~]"
_CONTEXT_BYTES = 64
_ALNUM = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGIT = re.compile(rb"[0-9]")
_NOT_DIGITS = bytes(set(range(256)) - set(b"0123456789"))


class Candidate(NamedTuple):
    """What a pattern proposes. Offsets are bytes of the folded buffer.

    Attributes:
        start: First byte of the value.
        end: One past its last byte.
        part_start: First byte that may serve as context: the name of the part's field, or the part's text.
        text_start: First byte of the part's text.
        part_end: One past the part's last byte.
        is_joined: Whether the text has lost its spaces, so that what touches the value says nothing of it.
    """

    buffer: bytes
    start: int
    end: int
    part_start: int
    text_start: int
    part_end: int
    is_joined: bool = False

    @property
    def value(self) -> str:
        """The value itself."""
        return self.buffer[self.start : self.end].decode("utf-8", "replace")

    @property
    def digits(self) -> str:
        """The digits of the value."""
        return self.buffer[self.start : self.end].translate(None, _NOT_DIGITS).decode("ascii")

    @property
    def before(self) -> bytes:
        """What stands before the value, as far as context reaches."""
        return self.buffer[max(self.part_start, self.start - _CONTEXT_BYTES) : self.start]

    @property
    def after(self) -> bytes:
        """What stands after the value, as far as context reaches."""
        return self.buffer[self.end : min(self.part_end, self.end + _CONTEXT_BYTES)]

    @property
    def fills_field(self) -> bool:
        """Whether the value begins a part that is the value of a named field."""
        return self.start == self.text_start > self.part_start

    def follows(self, words: re.Pattern[bytes]) -> bool:
        """Whether one of the words stands before the value, as far as context reaches."""
        return words.search(self.before) is not None

    def is_inside_longer_token(self, joiners: bytes = b"-.") -> bool:
        """Whether a joiner ties the value to a neighbour that holds a digit: a UUID, a version, a decimal, an id."""
        if self.is_joined:
            return False
        joined_before = self.start > self.part_start and self.buffer[self.start - 1] in joiners
        if joined_before and _DIGIT.search(_alnum_ending(self.before[:-1])):
            return True
        if self.end < self.part_end and self.buffer[self.end] in joiners:
            return _DIGIT.search(_alnum_beginning(self.after[1:])) is not None
        return False

    def is_glued_to_digits(self) -> bool:
        """Whether letters that touch the value lead on to more digits, as in hashes and ids."""
        if self.is_joined:
            return False
        buffer, start, end = self.buffer, self.start, self.end
        if start > self.part_start and buffer[start - 1] in _ALNUM and _DIGIT.search(_alnum_ending(self.before)):
            return True
        return end < self.part_end and buffer[end] in _ALNUM and _DIGIT.search(_alnum_beginning(self.after)) is not None


def _alnum_ending(text: bytes) -> bytes:
    """The letters and digits that a text ends with; many times as fast as a pattern that is tried from each place."""
    return text[len(text.rstrip(_ALNUM)) :]


def _alnum_beginning(text: bytes) -> bytes:
    return text[: len(text) - len(text.lstrip(_ALNUM))]


def itself(candidate: Candidate) -> Iterable[Candidate]:
    """Take what the pattern proposes for the value."""
    return (candidate,)


def always(_candidate: Candidate) -> bool:
    """Accept whatever the pattern proposes."""
    return True


@dataclass(frozen=True, slots=True)
class Detector:
    """One kind of value and how it is recognised.

    Attributes:
        kind: What it is, such as `card`.
        tag: The group it belongs to: `pii`, `phi`, `pci` or `secret`.
        pattern: RE2 syntax.
        accept: Decides on a candidate. Whatever it raises makes the part uninspected.
        within: Finds the values in what the pattern proposes, in order.
        overlapping: Whether a refused candidate may hide a real one that begins inside it.
    """

    kind: str
    tag: str
    pattern: str
    accept: Callable[[Candidate], bool] = always
    within: Callable[[Candidate], Iterable[Candidate]] = itself
    overlapping: bool = False
