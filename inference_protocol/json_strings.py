"""The places of a body's strings, so that the text of one can be changed and every other byte stays as it was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]')


class StringPlace(NamedTuple):
    """A string value: its path, such as `messages[0].content`, and its bytes with the quotation marks."""

    path: str
    start: int
    end: int


def string_places(raw: bytes) -> Iterator[StringPlace]:
    """Yield the place of every string value of a body that `parse_object` accepted, in document order."""
    path: list[str | int] = []
    key_comes = False
    for match in _TOKEN.finditer(raw):
        token = match.group()
        if token == b"{":
            path.append("")
            key_comes = True
        elif token == b"[":
            path.append(0)
            key_comes = False
        elif token in (b"}", b"]"):
            path.pop()
            key_comes = False
        elif token == b":":
            key_comes = False
        elif token == b",":
            innermost = path[-1]
            if isinstance(innermost, int):
                path[-1] = innermost + 1
            key_comes = isinstance(innermost, str)
        elif key_comes:
            path[-1] = json.loads(token)
        else:
            yield StringPlace(_dotted(path), match.start(), match.end())


def replace_strings(raw: bytes, texts: Mapping[StringPlace, str]) -> bytes:
    """Return `raw` with the strings at these places replaced."""
    pieces: list[bytes] = []
    at = 0
    for place in sorted(texts, key=lambda place: place.start):
        pieces += [raw[at : place.start], json.dumps(texts[place], ensure_ascii=False).encode("utf-8", "surrogatepass")]
        at = place.end
    return b"".join([*pieces, raw[at:]])


def _dotted(path: list[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
