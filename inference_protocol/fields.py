"""Checked access to the fields of a parsed body: each returns the value or raises `InvalidField` naming the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inference_protocol.errors import InvalidField


def boolean(tree: Mapping[str, Any], key: str, default: bool = False, *, at: str = "") -> bool:
    """Read a JSON boolean; absent or null is the default."""
    value = tree.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidField(f"`{at}{key}` must be true or false.", param=at + key)
    return value


def integer(tree: Mapping[str, Any], key: str, *, least: int, most: int) -> int | None:
    """Read an integer within bounds; absent or null is `None`."""
    value = tree.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidField(f"`{key}` must be an integer from {least} to {most}.", param=key)
    return value


def number(tree: Mapping[str, Any], key: str, default: float, *, least: float, most: float) -> float:
    """Read a finite number within bounds; absent or null is the default."""
    value = tree.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise InvalidField(f"`{key}` must be a number from {least:g} to {most:g}.", param=key)
    return float(value)


def string(tree: Mapping[str, Any], key: str, *, at: str = "") -> str:
    """Read a string that must be there and not be empty."""
    value = tree.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidField(f"`{at}{key}` must be a non-empty string.", param=at + key)
    return value
