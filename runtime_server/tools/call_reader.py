"""Reading calls of tools from an answer's text as it comes. What may be the beginning of a call is held back."""

from __future__ import annotations

import re
import uuid
from enum import Enum, auto
from typing import Any

from runtime_server.tools import CLOSE, OPEN

_HEAD = re.compile(r'\s*\{"name": "([^"]*)", "arguments": ')
_NOT_IN_STRING = re.compile(r'["{}\[\]]')
_IN_STRING = re.compile(r'["\\]')


class _Place(Enum):
    TEXT = auto()
    HEAD = auto()
    ARGUMENTS = auto()
    TAIL = auto()


class CallReader:
    """Turns one choice's text into deltas of content and of tool calls.

    Attributes:
        called: Calls that were begun.
    """

    def __init__(self) -> None:
        """Begin with no text seen."""
        self.called = 0
        self._place = _Place.TEXT
        self._rest = ""
        self._depth = 0
        self._in_string = False

    def feed(self, text: str) -> list[dict[str, Any]]:
        """Take more text and return the deltas that it settles."""
        self._rest += text
        deltas: list[dict[str, Any]] = []
        while self._advance(deltas):
            pass
        return deltas

    def close(self) -> list[dict[str, Any]]:
        """Return what was held back, once the text has ended."""
        rest, self._rest = self._rest, ""
        return [{"content": rest}] if rest and self._place is _Place.TEXT and not self.called else []

    def message(self, text: str) -> dict[str, Any]:
        """Return a whole answer's text as a message."""
        content: str | None = ""
        calls: list[dict[str, Any]] = []
        for delta in [*self.feed(text), *self.close()]:
            content = (content or "") + delta.get("content", "")
            for part in delta.get("tool_calls", ()):
                if "id" in part:
                    calls.append({key: part[key] for key in ("id", "type", "function")})
                else:
                    calls[-1]["function"]["arguments"] += part["function"]["arguments"]
        if not calls:
            return {"role": "assistant", "content": content}
        return {"role": "assistant", "content": content or None, "tool_calls": calls}

    def _advance(self, deltas: list[dict[str, Any]]) -> bool:
        """Read on; say whether there may be more to read."""
        match self._place:
            case _Place.TEXT:
                return self._read_text(deltas)
            case _Place.HEAD:
                return self._read_head(deltas)
            case _Place.ARGUMENTS:
                return self._read_arguments(deltas)
            case _Place.TAIL:
                _, found, after = self._rest.partition(CLOSE)
                if found:
                    self._place, self._rest = _Place.TEXT, after
                return bool(found)

    def _read_text(self, deltas: list[dict[str, Any]]) -> bool:
        before, found, after = self._rest.partition(OPEN)
        held = 0 if found else _overlap(before, OPEN)
        text = before[: len(before) - held]
        # Between calls stands nothing but white space.
        if text and not self.called:
            deltas.append({"content": text})
        self._rest = after if found else before[len(before) - held :]
        if found:
            self._place = _Place.HEAD
        return bool(found)

    def _read_head(self, deltas: list[dict[str, Any]]) -> bool:
        head = _HEAD.match(self._rest)
        if head is None:
            return False
        self._rest = self._rest[head.end() :]
        self._place, self._depth, self._in_string = _Place.ARGUMENTS, 0, False
        call = {
            "index": self.called,
            "id": f"call_{uuid.uuid4().hex[:24]}",
            "type": "function",
            "function": {"name": head[1], "arguments": ""},
        }
        self.called += 1
        deltas.append({"tool_calls": [call]})
        return True

    def _read_arguments(self, deltas: list[dict[str, Any]]) -> bool:
        end = self._end_of_value()
        text = self._rest if end is None else self._rest[:end]
        if text.endswith("\\") and end is None and self._in_string:
            text = text[:-1]  # the character that it escapes is still to come
        if text:
            fragment = {"index": self.called - 1, "function": {"arguments": text}}
            deltas.append({"tool_calls": [fragment]})
        self._rest = self._rest[len(text) :]
        if end is not None:
            self._place = _Place.TAIL
        return end is not None

    def _end_of_value(self) -> int | None:
        """Return where the object ends, or `None` while it goes on; keep how deep the text's end stands in it."""
        at = 0
        while found := (_IN_STRING if self._in_string else _NOT_IN_STRING).search(self._rest, at):
            at = found.end()
            match found[0]:
                case '"':
                    self._in_string = not self._in_string
                case "\\":
                    if at == len(self._rest):
                        return None
                    at += 1
                case "{" | "[":
                    self._depth += 1
                case _:
                    self._depth -= 1
                    if self._depth == 0:
                        return at
        return None


def _overlap(text: str, mark: str) -> int:
    """Return the length of the longest end of a text that the mark begins with."""
    return next((n for n in range(min(len(mark) - 1, len(text)), 0, -1) if mark.startswith(text[-n:])), 0)
