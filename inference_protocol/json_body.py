"""Reading a request body once, and changing top-level values in it without re-serialising the rest.

The standard library's parser is used for requests, not a faster one, because it hands over every object's pairs: a key
named twice is refused. Otherwise the scanner would read one of the two values and an upstream parser the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Never

from inference_protocol.errors import MalformedBody

MAX_DEPTH = 64
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]')
_OPENERS = (b"{", b"[")
_CLOSERS = (b"}", b"]")


def parse_object(raw: bytes) -> dict[str, Any]:
    """Parse a body that must be one JSON object in UTF-8.

    Raises:
        MalformedBody: Not UTF-8, not JSON, not an object, too deep (`MAX_DEPTH`), or an object names a key twice.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise MalformedBody(f"The body is not UTF-8: byte {exc.start} cannot be decoded.") from None
    try:
        tree = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as exc:
        raise MalformedBody(f"The body is not JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}.") from None
    except RecursionError:
        raise MalformedBody(f"The body is nested deeper than {MAX_DEPTH} levels.") from None
    except ValueError as exc:  # an integer with more digits than the interpreter converts
        raise MalformedBody(f"The body holds a number that cannot be read: {exc}.") from None
    if not isinstance(tree, dict):
        raise MalformedBody("The body must be a JSON object.")
    if _deeper_than(tree, MAX_DEPTH):
        raise MalformedBody(f"The body is nested deeper than {MAX_DEPTH} levels.")
    return tree


def splice(raw: bytes, values: Mapping[str, bytes | None]) -> bytes:
    """Return `raw` with top-level values replaced, added or (where `None`) removed; every other byte stays as it was.

    Args:
        raw: A body that `parse_object` accepted.
        values: Top-level key to the JSON text of its new value.
    """
    if not values:
        return raw
    members = _top_level_members(raw)
    edits: list[tuple[int, int, bytes]] = []
    added: list[bytes] = []
    for key, value in values.items():
        at = members.get(key)
        if at is not None:
            key_start, value_start, end = at
            edits.append((value_start, end, value) if value is not None else _removal(raw, key_start, end))
        elif value is not None:
            added.append(json.dumps(key).encode() + b":" + value)
    out = raw
    for start, end, replacement in sorted(edits, reverse=True):
        out = out[:start] + replacement + out[end:]
    if not added:
        return out
    closing = out.rindex(b"}")
    body = out[:closing].rstrip()
    return body + (b"" if body.endswith(b"{") else b",") + b",".join(added) + out[closing:]


def _removal(raw: bytes, start: int, end: int) -> tuple[int, int, bytes]:
    """Widen a member's span by the one comma that belonged to it."""
    after = end
    while raw[after : after + 1].isspace():
        after += 1
    if raw[after : after + 1] == b",":
        return start, after + 1, b""
    before = start
    while before > 0 and raw[before - 1 : before].isspace():
        before -= 1
    if raw[before - 1 : before] == b",":
        return before - 1, end, b""
    return start, end, b""


def _top_level_members(raw: bytes) -> dict[str, tuple[int, int, int]]:
    """Map each top-level key to (start of key, start of value, end of value), as byte offsets."""
    members: dict[str, tuple[int, int, int]] = {}
    depth = 0
    key: tuple[str, int] | None = None
    value_start = -1
    for match in _TOKEN.finditer(raw):
        token = match.group()
        if token in _OPENERS:
            depth += 1
        elif token in _CLOSERS:
            depth -= 1
            if depth == 0 and key is not None:
                _close_member(raw, members, key, value_start, match.start())
        elif depth != 1:
            continue
        elif token == b",":
            if key is not None:
                _close_member(raw, members, key, value_start, match.start())
            key = None
        elif token == b":":
            value_start = match.end()
        elif key is None:
            key = (json.loads(token), match.start())
    return members


def _close_member(
    raw: bytes, members: dict[str, tuple[int, int, int]], key: tuple[str, int], value_start: int, end: int
) -> None:
    value = raw[value_start:end]
    start = value_start + len(value) - len(value.lstrip())
    members[key[0]] = (key[1], start, start + len(value.strip()))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # add() is wanted for its effect
        raise MalformedBody(f"The key {twice!r} stands twice in one object.", param=twice)
    return found


def _refuse_constant(name: str) -> Never:
    raise MalformedBody(f"The body is not JSON: {name} is not a JSON number.")


def _deeper_than(tree: Any, limit: int) -> bool:
    level: list[Any] = [tree]
    for _ in range(limit):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True
