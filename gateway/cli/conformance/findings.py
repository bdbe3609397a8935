"""What a case finds: that the gateway breaks a rule, or that the rule says nothing about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Violation(Exception):  # it is what was looked for, and no fault of the program
    """The gateway does what no client should have to bear; the message says what."""


class NotApplicable(Exception):  # it ends a case, and is no fault
    """The case says nothing about this gateway; the message says why."""


def expect(holds: bool, otherwise: str) -> None:
    """Raise `Violation(otherwise)` unless it holds."""
    if not holds:
        raise Violation(otherwise)


def error_of(status: int, document: Any) -> Mapping[str, Any]:
    """The error in a document of OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`.

    Raises:
        Violation: The status is none of an error, or the document has another shape.
    """
    expect(400 <= status < 600, f"it is answered with {status} and not refused")
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict):
        raise Violation(f"the {status} holds no `error` object")
    for name in ("message", "type"):
        if not isinstance(error.get(name), str) or not error[name]:
            raise Violation(f"the error of the {status} has no `{name}`")
    return error
