"""Guessing how an answer goes on, from what was said before, and whether checking the guess pays.

Answers often repeat their prompt: code that is edited, text that is summed up, names. What followed the last tokens
where they stood before is a draft (prompt lookup decoding, https://github.com/apoorvumang/prompt-lookup-decoding). One
run reads all of it and tells what the model would have said after each token; tokens are kept as long as they agree.
"""

from __future__ import annotations

from array import array

_LONGEST_PATTERN, _SHORTEST_PATTERN = 4, 2
_DRAFT = 4
_WEIGHT_OF_NEWEST = 0.1
_HOPE = 0.75  # share of a draft that is thought to be accepted before anything is known
_LOOK_AGAIN = 32  # drafts that are let pass before one is tried although it did not pay


def look_up(tokens: array[int], most: int) -> tuple[int, ...]:
    """Return what followed the last tokens where they stood last, the longest pattern first; nothing if nowhere."""
    raw, width = tokens.tobytes(), tokens.itemsize
    for size in range(_LONGEST_PATTERN, _SHORTEST_PATTERN - 1, -1):
        end = len(raw)
        pattern = raw[-size * width :]
        while len(tokens) > size and (at := raw.rfind(pattern, 0, end - 1)) >= 0:
            if at % width == 0:
                begin = at // width + size
                return tuple(tokens[begin : begin + most])
            end = at + len(pattern)
    return ()


class Drafter:
    """Makes drafts for one stream, as long as they pay. For the engine's thread only.

    Attributes:
        drafted: Tokens of all drafts that were checked.
        accepted: Those of them that the model said too.
    """

    def __init__(self) -> None:
        """Begin with hope."""
        self.drafted = 0
        self.accepted = 0
        self._share = _HOPE
        self._check_s: dict[int, float] = {}  # by tokens that were read at once
        self._passed = 0

    def draft(self, tokens: array[int], most: int, decode_s: float) -> tuple[int, ...]:
        """Return tokens that are worth checking.

        Args:
            tokens: Prompt and answer so far.
            most: How many may come.
            decode_s: Seconds of a step that reads one token.
        """
        found = look_up(tokens, min(most, _DRAFT))
        if not found or self._pays(len(found), decode_s):
            return found
        self._passed += 1
        if self._passed < _LOOK_AGAIN:
            return ()
        self._passed = 0
        return found

    def checked(self, drafted: int, accepted: int, seconds: float) -> None:
        """Learn from a draft."""
        self.drafted += drafted
        self.accepted += accepted
        self._share += _WEIGHT_OF_NEWEST * (accepted / drafted - self._share)
        known = self._check_s.get(drafted, seconds)
        self._check_s[drafted] = known + _WEIGHT_OF_NEWEST * (seconds - known)

    def _pays(self, drafted: int, decode_s: float) -> bool:
        """Whether a check gives more tokens a second than single steps."""
        check_s = self._check_s.get(drafted)
        return check_s is None or (1 + self._share * drafted) * decode_s > check_s
