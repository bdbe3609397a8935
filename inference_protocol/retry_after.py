"""When a server wants to be asked again: `Retry-After` in seconds or as a date (RFC 9110), or OpenAI's milliseconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import mktime_tz, parsedate_tz

RETRY_AFTER = "retry-after"
RETRY_AFTER_MS = "retry-after-ms"
_DECIMAL = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")


def read_retry_after_s(headers: Mapping[str, str], *, wall_s: float) -> float | None:
    """Return the seconds that a server asks to be left alone; `None` where it does not say, or nothing readable.

    Args:
        headers: Of its answer, by lower-case name. Milliseconds stand above seconds, since who sends both means them.
        wall_s: Seconds since the epoch, for dates. One that has passed is a wait of nothing.
    """
    for name, unit_s in ((RETRY_AFTER_MS, 0.001), (RETRY_AFTER, 1.0)):
        value = headers.get(name, "").strip()
        if _DECIMAL.fullmatch(value):
            return float(value) * unit_s
    date = parsedate_tz(headers.get(RETRY_AFTER, ""))
    if date is None:
        return None
    try:
        return max(0.0, mktime_tz(date) - wall_s)
    except (OverflowError, ValueError):
        return None
