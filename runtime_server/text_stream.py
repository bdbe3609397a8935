"""From token ids to the text a caller sees, a step at a time: whole characters, and nothing of a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from runtime_server.stop_strings import StopStrings
from runtime_server.token_spelling import TokenSpelling


class TextStream:
    """One answer's text. What is given out is never taken back and never given twice.

    Attributes:
        read: Characters that the tokens so far came to.
        given: Of them, those given out.
    """

    def __init__(self, spelling: TokenSpelling, stops: Iterable[str]) -> None:
        """Start an empty answer.

        Args:
            spelling: Of the model that generates.
            stops: Strings that end the answer and are not part of it.
        """
        self._spelling = spelling
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = StopStrings(stops)
        self.read = self.given = 0

    @property
    def stopped(self) -> bool:
        """Whether a stop string ended the answer."""
        return self._stops.matched is not None

    def feed(self, tokens: Iterable[int]) -> str:
        """Take the next tokens and return the text that they settle; bytes that are no UTF-8 read as U+FFFD."""
        spelling = self._spelling
        text = self._utf8.decode(b"".join([spelling[token] for token in tokens]))
        self.read += len(text)
        return self._give(self._stops.feed(text))

    def close(self) -> str:
        """Return the text still held back. The first bytes of a character that never became whole are dropped."""
        return self._give(self._stops.close())

    def _give(self, text: str) -> str:
        self.given += len(text)
        return text
