"""The one error of a policy that cannot be loaded, with the place to look at."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PolicyError(ValueError):
    """A policy is wrong. Nothing of it is used.

    Attributes:
        file: The file or built-in name it was read from.
        line: 1 for the first line.
        column: 1 for the first character.
        message: What is wrong and how to mend it.
    """

    def __init__(self, file: str, line: int, column: int, message: str) -> None:
        """Say what is wrong and where."""
        super().__init__(f"{file}:{line}:{column}: {message}")
        self.file = file
        self.line = line
        self.column = column
        self.message = message


def suggestion(word: str, allowed: Iterable[str], cutoff: float = 0.6) -> str:
    """Return ` (did you mean ...?)` for a likely typo, else nothing; `cutoff` is how alike they must be, 0 to 1."""
    close = difflib.get_close_matches(word, list(allowed), n=1, cutoff=cutoff)
    return f" (did you mean `{close[0]}`?)" if close else ""


def choice(word: str, allowed: Iterable[str]) -> str:
    """Return the end of a sentence that refuses a word: a suggestion, then all that is allowed."""
    words = list(allowed)
    return f"{suggestion(word, words)}; allowed: {', '.join(words)}"
