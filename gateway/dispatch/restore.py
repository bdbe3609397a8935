"""Puts values back where an answer holds their tokens, in every channel of it, however its text was cut into pieces.

Only tokens of this very request are known here, so nobody else's value can appear. A token inside a URL stays: a URL is
fetched by whatever shows it, and a model that was talked into writing one would send the value to a stranger.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from gateway.dispatch.answer_texts import ChannelKey

_CLOSERS = {'"': '"', "'": "'", "`": "`", "<": ">", "(": ")"}
_SPACE = " \t\r\n"


class Restoration:
    """What to put back in one answer."""

    def __init__(self, originals: Mapping[str, str], *, content_is_json: bool) -> None:
        """Prepare to restore.

        Args:
            originals: Token to value.
            content_is_json: Whether the content, or a completion's text, must be JSON, so values in it are escaped.
        """
        self._originals = {token.upper(): value for token, value in originals.items()}
        self._escaped = {token: json.dumps(value)[1:-1] for token, value in self._originals.items()}
        self._content_is_json = content_is_json
        tokens = sorted(map(re.escape, self._originals))
        self.pattern = re.compile("|".join(tokens), re.IGNORECASE | re.ASCII)
        self.beginnings = frozenset(token[:end] for token in self._originals for end in range(1, len(token)))
        self.longest = max(map(len, self._originals))

    def channel(self, key: ChannelKey) -> RestoredText:
        """Open a channel: one text of one choice."""
        is_json = key[1] in {"tool_calls", "function_call"} or (key[1] in {"content", "text"} and self._content_is_json)
        return RestoredText(self, self._escaped if is_json else self._originals)


class RestoredText:
    """One text of an answer as it comes, piece by piece. What may be the beginning of a token is held back."""

    def __init__(self, restoration: Restoration, values: Mapping[str, str]) -> None:
        """Start at the beginning of the text."""
        self._restoration = restoration
        self._values = values
        self._held = ""
        self._urls = _UrlWatch()

    def feed(self, text: str) -> str:
        """Take the next piece, and return what can be shown by now."""
        text = self._held + text
        pieces: list[str] = []
        at = 0
        for match in self._restoration.pattern.finditer(text):
            pieces.append(self._urls.passing(text[at : match.start()]))
            token = match.group()
            pieces.append(token if self._urls.is_inside else self._values[token.upper()])
            self._urls.passing(token)
            at = match.end()
        end = len(text) - self._beginning_at_the_end_of(text[at:])
        self._held = text[end:]
        pieces.append(self._urls.passing(text[at:end]))
        return "".join(pieces)

    def rest(self) -> str:
        """Return what was held back, once it is clear that nothing follows."""
        held, self._held = self._held, ""
        return self._urls.passing(held)

    def _beginning_at_the_end_of(self, text: str) -> int:
        """The length of the longest end of a text that may still become a token."""
        restoration = self._restoration
        for length in range(min(restoration.longest - 1, len(text)), 0, -1):
            if text[-length:].upper() in restoration.beginnings:
                return length
        return 0


class _UrlWatch:
    """Knows whether a text, read up to here, is inside a URL."""

    def __init__(self) -> None:
        self._opener = " "
        self._closers = ""
        self._before = ""

    @property
    def is_inside(self) -> bool:
        return bool(self._closers)

    def passing(self, text: str) -> str:
        """Read on, and return the text."""
        for char in text:
            if self._closers:
                if char in self._closers:
                    self._closers = ""
            elif char == "/" and self._before == "/":
                # What stands in quotation marks or brackets ends with those: a browser forgives a space in an address.
                self._closers = _CLOSERS.get(self._opener, _SPACE)
            elif not (char.isalnum() or char in "+.-:/"):
                self._opener = char
            self._before = char
        return text
