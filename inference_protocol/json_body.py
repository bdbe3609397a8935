"""Reading a request body once, and changing top-level values in it without re-serialising the rest.

The standard library's parser is used for requests, not a faster one, because it hands over every object's pairs: a key
named twice is refused. Otherwise the scanner would read one of the two values and an upstream parser the other.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple, Never

from inference_protocol.errors import MalformedBody
from inference_protocol.strings import is_plain_name

MAX_DEPTH = 64
MAX_VALUES = 100_000
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]')
# Up to the next mark that begins a value, over whole strings. Possessive, so that a failure costs one pass.
_TO_NEXT_VALUE = re.compile(rb'[^"\[{,]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[{,]*+)*+[\[{,]', re.DOTALL)
_OPENERS = (b"{", b"[")
_CLOSERS = (b"}", b"]")
_EXACT_IN_FLOATS = 2.0**53
_LONGEST_NUMBER = 1e20  # a whole number beyond this is no identifier, and spelling it out could take gigabytes


def parse_object(raw: bytes, *, max_values: int = MAX_VALUES) -> dict[str, Any]:
    """Parse a body that must be one JSON object in UTF-8.

    Raises:
        MalformedBody: Not UTF-8, not JSON, not an object, too deep (`MAX_DEPTH`), too many values (`max_values`), or an
            object names a key twice.
    """
    if _has_more_values_than(max_values, raw):
        raise MalformedBody(f"The body holds more than {max_values} JSON values.")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise MalformedBody(f"The body is not UTF-8: byte {exc.start} cannot be decoded.") from None
    try:
        tree = json.loads(text, object_pairs_hook=_unique, parse_float=_number, parse_constant=_refuse_constant)
    except json.JSONDecodeError as exc:
        raise MalformedBody(f"The body is not JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}.") from None
    except RecursionError:
        raise MalformedBody(f"The body is nested deeper than {MAX_DEPTH} levels.") from None
    except ValueError:  # an integer with more digits than the interpreter converts
        raise MalformedBody("The body holds a number with too many digits.") from None
    if not isinstance(tree, dict):
        raise MalformedBody("The body must be a JSON object.")
    if _deeper_than(tree, MAX_DEPTH):
        raise MalformedBody(f"The body is nested deeper than {MAX_DEPTH} levels.")
    return tree


def splice(raw: bytes, tree: Mapping[str, Any], values: Mapping[str, bytes | None]) -> bytes:
    """Return `raw` with top-level values replaced, added or (where `None`) removed; every other byte stays as it was.

    A removed member takes along the comma and the white space before it.

    Args:
        raw: A body that `parse_object` accepted.
        tree: What it was parsed to; only a body that has one of the keys must be searched for it.
        values: Top-level key to the JSON text of its new value.
    """
    if not values:
        return raw
    if tree and values.keys().isdisjoint(tree):
        added = [json.dumps(key).encode() + b":" + value for key, value in values.items() if value is not None]
        end = raw.rindex(b"}")
        return b",".join([raw[:end], *added]) + raw[end:]
    members = _top_level_members(raw)
    head, tail = (raw[: members[0].key_start], raw[members[-1].value_end :]) if members else _empty_object(raw)
    kept: list[bytes] = []
    previous_end = len(head)
    for member in members:
        value = values.get(member.key, raw[member.value_start : member.value_end])
        if value is not None:
            # A member brings the separator before it; the first one that is kept has none.
            start = previous_end if kept else member.key_start
            kept.append(raw[start : member.value_start] + value)
        previous_end = member.value_end
    present = {member.key for member in members}
    for key, value in values.items():
        if value is not None and key not in present:
            kept.append((b"," if kept else b"") + json.dumps(key).encode() + b":" + value)
    return head + b"".join(kept) + tail


class _Member(NamedTuple):
    """One top-level member, its places as byte offsets."""

    key: str
    key_start: int
    value_start: int
    value_end: int


def _top_level_members(raw: bytes) -> list[_Member]:
    members: list[_Member] = []
    depth = 0
    key: tuple[str, int] | None = None
    colon_end = -1
    for match in _TOKEN.finditer(raw):
        token = match.group()
        if token in _OPENERS:
            depth += 1
            continue
        if token in _CLOSERS:
            depth -= 1
        ends_member = depth == 0 if token in _CLOSERS else depth == 1 and token == b","
        if ends_member and key is not None:
            value = raw[colon_end : match.start()]
            value_start = colon_end + len(value) - len(value.lstrip())
            members.append(_Member(*key, value_start, value_start + len(value.strip())))
            key = None
        elif depth == 1 and token == b":":
            colon_end = match.end()
        elif depth == 1 and key is None and token.startswith(b'"'):
            key = (json.loads(token), match.start())
    return members


def _empty_object(raw: bytes) -> tuple[bytes, bytes]:
    opening = raw.index(b"{") + 1
    return raw[:opening], raw[opening:]


def _has_more_values_than(limit: int, raw: bytes) -> bool:
    """Count values before any is built: each but the outermost stands behind a comma, or first in a list or object.

    An empty list or object counts as two.
    """
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") < limit:
        return False
    at = 0
    for _ in range(limit):  # marks inside strings made the quick count too high, or it is true
        found = _TO_NEXT_VALUE.match(raw, at)
        if found is None:
            return False
        at = found.end()
    return True


def _number(literal: str) -> float | int:
    """Keep a whole number, however it is written, where a float would lose its last digits: it may be a card's."""
    value = float(literal)
    if not _EXACT_IN_FLOATS <= abs(value) < _LONGEST_NUMBER:
        return value
    exact = Decimal(literal)
    whole = int(exact)
    return whole if whole == exact else value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        # A key that is no plain name may be somebody's data: it is not repeated.
        if not is_plain_name(twice):
            raise MalformedBody("A key stands twice in one object.")
        raise MalformedBody(f"The key `{twice}` stands twice in one object.", param=twice)
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
