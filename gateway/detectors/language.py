"""Telling English by what speaks for it, for detectors that know no other language.

A text counts as English where, wherever one looks in it, most words are English ones. Nothing is concluded from words
that are missing: a language that nobody thought of, a short answer in German and one sentence of Finnish in the middle
of an English letter have no evidence either. Numbers, addresses of the web, digests and signs are in no language.

The words are the most frequent of symspellpy's English dictionary, which holds what Google's books and the word lists
of SCOWL have in common.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from itertools import accumulate, islice
from pathlib import Path

_DICTIONARY = "frequency_dictionary_en_82_765.txt"
_MOST_FREQUENT = 20_000
_WINDOW = 8  # words that are looked at together: fewer would trip over names, more would hide a sentence among others
_LEAST_SHARE = 0.6
# In the dictionary because English books quote them. They speak for the languages that use them daily.
_BORROWED = frozenset(
    "al ale att ben che com como con dans dat de del della dem der des du el est et la las le les los mas med mon nous "
    "och para pas pour que som sur un una van var von yang".split()
)
_LAST_OF_LATIN = "\u024f"
_OF_ONE_OR_TWO_LETTERS = frozenset(
    "a i am an as at be by do go he hi if in is it me my no of oh ok on or so to tv up us vs we".split()
)
# Of ASCII alone, since other scripts may write a sentence around a number without a space.
_IN_NO_LANGUAGE = re.compile(
    r"(?:https?://|www\.)[!-~]+|[!-~]+@[!-~]+|[!-~]*\d[!-~]*|(?<=\w)['’](?:s|t|re|ve|ll|d|m)\b", re.IGNORECASE
)
_WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])")  # `makeHay` and `make_hay` are two each


class English:
    """What speaks for English."""

    def __init__(self) -> None:
        """Read the dictionary.

        Raises:
            ValueError: symspellpy is not installed.
        """
        package = importlib.util.find_spec("symspellpy")
        if package is None or package.origin is None:
            raise ValueError("telling English takes the words of symspellpy: pip install 'tidegate[presidio]'")
        with Path(package.origin).with_name(_DICTIONARY).open(encoding="utf-8-sig") as file:
            frequent = [line.split()[0].lower() for line in islice(file, _MOST_FREQUENT)]
        self._words = _OF_ONE_OR_TWO_LETTERS | {word for word in frequent if len(word) > 2} - _BORROWED

    def are_all(self, texts: Iterable[str]) -> bool:
        """Whether each of the texts is English from end to end, or has no words at all."""
        return all(map(self._is_all_of, texts))

    def _is_all_of(self, text: str) -> bool:
        words = _WORD.findall(_IN_NO_LANGUAGE.sub(" ", text))
        # Sums up to each word, so that a window costs the same however long it is.
        sums = [list(accumulate(weights, initial=0)) for weights in zip(*map(self._weigh, words), strict=True)]
        starts = range(max(1, len(words) - _WINDOW + 1)) if words else ()
        ends = (min(start + _WINDOW, len(words)) for start in starts)
        return all(
            _speaks_for_english(*(upto[end] - upto[start] for upto in sums))
            for start, end in zip(starts, ends, strict=True)
        )

    def _weigh(self, word: str) -> tuple[int, int, int]:
        """What a word says: that it is English, that it is not, that it may be a name."""
        if word.lower() in self._words:
            return 1, 0, 0
        if word[0].isupper():
            return 0, 0, 1
        if word.isascii():
            return 0, int(len(word) > 1), 0  # a single letter is a variable
        # Scripts that leave no spaces have a whole sentence in what looks like a word.
        return 0, (len(word) if min(word) > _LAST_OF_LATIN else 2), 0


def _speaks_for_english(english: int, other: int, names: int) -> bool:
    unexplained = max(0, names - english // 2)  # names stand among words; headlines and the nouns of German do not
    return english >= _LEAST_SHARE * (english + other + unexplained)
