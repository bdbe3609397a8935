"""What can be said of a string before anything else is done with it."""

from __future__ import annotations

import re

# Longer runs of digits may be a phone number or an id of somebody's.
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z_-]{0,39}[0-9]{0,3}")


def is_plain_name(text: str) -> bool:
    """Whether a key can only be a field's name, so that it may be recorded and told; any other may be data."""
    return _PLAIN_NAME.fullmatch(text) is not None


def has_lone_surrogate(text: str) -> bool:
    """Whether it holds half of a surrogate pair, which JSON can carry and which is no text."""
    if text.isascii():
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
