"""Puts values back where an answer holds their tokens, in every channel of it, however its text was cut into pieces.

Only tokens of this very request are known here, so nobody else's value can appear. A token inside a URL stays: a URL is
fetched by whatever shows it, and a model that was talked into writing one would send the value to a stranger.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_TEXT_FIELDS = ("content", "reasoning_content", "reasoning", "refusal")
_CLOSERS = {'"': '"', "'": "'", "`": "`", "<": ">", "(": ")"}
_SPACE = " \t\r\n"
_ChannelKey = tuple[Any, ...]


class Restoration:
    """What to put back in one answer."""

    def __init__(self, originals: Mapping[str, str], *, content_is_json: bool) -> None:
        """Prepare to restore.

        Args:
            originals: Token to value.
            content_is_json: Whether the answer's content must be JSON, so that values in it are escaped.
        """
        self._originals = {token.upper(): value for token, value in originals.items()}
        self._escaped = {token: json.dumps(value)[1:-1] for token, value in self._originals.items()}
        self._content_is_json = content_is_json
        tokens = sorted(map(re.escape, self._originals))
        self.pattern = re.compile("|".join(tokens), re.IGNORECASE | re.ASCII)
        self.beginnings = frozenset(token[:end] for token in self._originals for end in range(1, len(token)))
        self.longest = max(map(len, self._originals))

    def channel(self, key: _ChannelKey) -> Channel:
        """Open a channel: one text of one choice."""
        is_json = key[1] in {"tool_calls", "function_call"} or (key[1] == "content" and self._content_is_json)
        return Channel(self, self._escaped if is_json else self._originals)


class Channel:
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


class AnswerRestorer:
    """Restores the chunks of one streamed answer, or one that came whole."""

    def __init__(self, restoration: Restoration) -> None:
        """Start at the beginning of an answer."""
        self._restoration = restoration
        self._channels: dict[_ChannelKey, Channel] = {}

    def restore(self, tree: dict[str, Any]) -> None:
        """Restore one parsed chunk in place. A choice that is finished gets what was held back of it."""
        for position, choice in enumerate(_objects(tree.get("choices"))):
            index = choice.get("index", position)
            part = choice.get("delta", choice.get("message"))
            if isinstance(part, dict):
                self._restore_part(index, part)
            if choice.get("finish_reason") or "message" in choice:
                for key, text in self._rest(index):
                    _append(choice.setdefault("message" if "message" in choice else "delta", {}), key, text)

    def rest(self) -> list[dict[str, Any]]:
        """Return choices with what is still held back, for an answer that ends without finishing them."""
        found: dict[Any, dict[str, Any]] = {}
        for index in list(dict.fromkeys(key[0] for key in self._channels)):
            for key, text in self._rest(index):
                choice = found.setdefault(index, {"index": index, "delta": {}, "finish_reason": None})
                _append(choice["delta"], key, text)
        return list(found.values())

    def _restore_part(self, index: Any, part: dict[str, Any]) -> None:
        for field in _TEXT_FIELDS:
            if isinstance(part.get(field), str):
                part[field] = self._channel((index, field)).feed(part[field])
        for position, call in enumerate(_objects(part.get("tool_calls"))):
            self._restore_arguments((index, "tool_calls", call.get("index", position)), call.get("function"))
        self._restore_arguments((index, "function_call"), part.get("function_call"))

    def _restore_arguments(self, key: _ChannelKey, function: Any) -> None:
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            function["arguments"] = self._channel(key).feed(function["arguments"])

    def _channel(self, key: _ChannelKey) -> Channel:
        if key not in self._channels:
            self._channels[key] = self._restoration.channel(key)
        return self._channels[key]

    def _rest(self, index: Any) -> Iterator[tuple[_ChannelKey, str]]:
        for key, channel in self._channels.items():
            if key[0] == index and (text := channel.rest()):
                yield key, text


def _append(part: dict[str, Any], key: _ChannelKey, text: str) -> None:
    """Add text to the channel of a delta or message that it belongs to."""
    match key:
        case (_, "tool_calls", call):
            calls = part.setdefault("tool_calls", [])
            same: Callable[[tuple[int, dict[str, Any]]], bool] = lambda each: each[1].get("index", each[0]) == call  # noqa: E731  # reads best here
            found = next(filter(same, enumerate(_objects(calls))), None)
            if found is None:
                calls.append({"index": call, "function": {"arguments": text}})
            else:
                _append_to(found[1].setdefault("function", {}), "arguments", text)
        case (_, "function_call"):
            _append_to(part.setdefault("function_call", {}), "arguments", text)
        case (_, field):
            _append_to(part, field, text)


def _append_to(part: dict[str, Any], field: str, text: str) -> None:
    part[field] = (part.get(field) or "") + text


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
