"""How budgets are written in headers. Gateway and runtimes read them alike, so that what one accepts the other does."""

from __future__ import annotations

import re

from inference_protocol.errors import InvalidHeader

MAX_BUDGET_MS = 7 * 24 * 3600 * 1000
# What the header that says what becomes of late answers may say: stop in time.
TRUNCATE = "truncate"
_DECIMAL = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")


def read_budget_ms(name: str, value: str, *, unit_ms: float = 1.0, unit: str = "milliseconds") -> float:
    """Return the milliseconds of a budget that is written as a decimal number.

    Args:
        name: Of the header.
        value: Of the header.
        unit_ms: Milliseconds of what it counts in.
        unit: The word for that.

    Raises:
        InvalidHeader: It is no decimal number, not above zero, or longer than seven days.
    """
    accepted = f"a decimal number of {unit}"
    match = _DECIMAL.fullmatch(value.strip())
    if match is None:
        raise budget_refused(name, accepted)
    return within_bounds(float(match[0]) * unit_ms, name, accepted)


def within_bounds(budget_ms: float, name: str, accepted: str) -> float:
    """Return a budget that was read.

    Raises:
        InvalidHeader: It is not above zero, or longer than seven days.
    """
    if not 0.0 < budget_ms <= MAX_BUDGET_MS:
        raise budget_refused(name, accepted)
    return budget_ms


def budget_refused(name: str, accepted: str) -> InvalidHeader:
    """Return the error for a time header; `accepted` says how it may be written."""
    return InvalidHeader(f"`{name}` must be {accepted}, above zero and at most seven days.", param=name)
