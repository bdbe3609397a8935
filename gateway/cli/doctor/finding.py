"""What a look found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class State(StrEnum):
    """How it stands."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        check: What was looked at, such as `disk` or `target cloud`.
        says: What was found, in a sentence without its full stop.
        fix: What to do, where something is wrong.
    """

    check: str
    state: State
    says: str
    fix: str | None = None

    def to_json(self) -> dict[str, str | None]:
        """Return it as values of a JSON object."""
        return asdict(self)


def ok(check: str, says: str) -> Finding:
    """All is well."""
    return Finding(check, State.OK, says)


def warn(check: str, says: str, fix: str) -> Finding:
    """It runs, and not as it should."""
    return Finding(check, State.WARN, says, fix)


def fail(check: str, says: str, fix: str) -> Finding:
    """It does not run, or must not."""
    return Finding(check, State.FAIL, says, fix)
