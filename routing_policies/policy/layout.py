"""The one layout of a policy file: sections in the document's order, no stray white space. Comments stay.

Lines are moved, never rewritten. What could change the meaning or lose a comment is refused, so that formatting is
always safe.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from routing_policies.policy.errors import PolicyError
from routing_policies.policy.model import Policy
from routing_policies.policy.yaml_source import Source, read

# The line that ends a document; what was cut off has none.
_END = "..."
_ORDER = [field.alias or name for name, field in Policy.model_fields.items()]


def formatted(text: str, origin: str) -> str:
    """Return the text of a policy in the layout.

    Raises:
        PolicyError: It cannot be read, or its sections cannot be told apart by lines.
    """
    source = read(text, origin)
    head, sections = _sections(source)
    known = {name: index for index, name in enumerate(_ORDER)}
    order = sorted(sections, key=lambda name: known.get(name, len(known)))
    lines = [*head, *(line for name in order for line in sections[name])]
    if _END in lines:
        lines.remove(_END)
        lines.append(_END)
    found = "\n".join(_spaced(lines)) + "\n"
    again = read(found, origin)
    if again.value != source.value or sorted(_comments(found)) != sorted(_comments(text)):
        raise PolicyError(origin, 1, 1, "cannot be formatted without a change of meaning; a text holds its white space")
    return found


def _sections(source: Source) -> tuple[list[str], dict[str, list[str]]]:
    """What stands above the first section, and each section with the comments right above it."""
    places = {str(path[0]): place for path, place in source.keys.items() if len(path) == 1}
    if len({place.line for place in places.values()}) < len(places) or any(p.column != 1 for p in places.values()):
        place = next(iter(places.values()))
        message = "cannot be formatted: each section must begin on a line of its own, at its start"
        raise PolicyError(source.name, place.line, place.column, message)
    lines = [line.rstrip() for line in source.text.splitlines()]
    keys = [place.line - 1 for place in places.values()]
    begins = [keys[0], *(_with_comments(lines, key) for key in keys[1:]), len(lines)]
    sections = {name: lines[begin:end] for name, (begin, end) in zip(places, itertools.pairwise(begins), strict=True)}
    return lines[: keys[0]], sections


def _with_comments(lines: list[str], key: int) -> int:
    while lines[key - 1].startswith("#"):
        key -= 1
    return key


def _spaced(lines: Iterable[str]) -> Iterator[str]:
    """Leave out empty lines at both ends and after another."""
    empty = False
    begun = False
    for line in lines:
        if line:
            if empty and begun:
                yield ""
            yield line
            begun = True
        empty = not line


def _comments(text: str) -> list[str]:
    return [match.group().rstrip() for match in re.finditer(r"(?m)(?:^|(?<=\s))#.*$", text)]
