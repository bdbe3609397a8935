"""What records tell of policies on trial: how a canary fares beside the stable one, what a shadow would change."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Fared:
    """How requests fared under one version.

    Attributes:
        outcomes: Outcome to how many.
        targets: Who answered, to how many; `none` where nobody did.
        commit_ms: Milliseconds to the commit, of those that committed.
    """

    name: str
    version: int
    arm: str
    requests: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    targets: Counter[str] = field(default_factory=Counter)
    commit_ms: list[float] = field(default_factory=list)

    @property
    def median_commit_ms(self) -> float | None:
        """The median of the milliseconds to the commit."""
        return statistics.median(self.commit_ms) if self.commit_ms else None

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "name": self.name,
            "version": self.version,
            "arm": self.arm,
            "requests": self.requests,
            "outcomes": dict(self.outcomes),
            "targets": dict(self.targets),
            "median_commit_ms": self.median_commit_ms,
        }


@dataclass(slots=True)
class Shadowed:
    """What a shadow would have changed.

    Attributes:
        requests: Those that were decided while it was asked of some.
        asked: Those of which it was asked.
        moved: Who was asked first, and who would have been, to how many; only where they differ.
        looser: Target to how many requests it might have answered and might not.
        stricter: Target to how many it might not have answered and might.
        inexact: Where a rule reads the number of tokens, which was not counted for it: it may be stricter than it is.
    """

    name: str
    version: int
    requests: int = 0
    asked: int = 0
    moved: Counter[tuple[str, str]] = field(default_factory=Counter)
    looser: Counter[str] = field(default_factory=Counter)
    stricter: Counter[str] = field(default_factory=Counter)
    inexact: int = 0

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "name": self.name,
            "version": self.version,
            "requests": self.requests,
            "asked": self.asked,
            "moved": [{"from": was, "to": would, "requests": n} for (was, would), n in self.moved.most_common()],
            "looser": dict(self.looser),
            "stricter": dict(self.stricter),
            "inexact": self.inexact,
        }


def fared(records: Iterable[Mapping[str, Any]]) -> list[Fared]:
    """Count how requests fared, by the version that decided them, as they come."""
    found: dict[tuple[int, str], Fared] = {}
    for record in _outcomes(records):
        policy = record["policy"]
        key = (policy["version"], policy["arm"])
        one = found.setdefault(key, Fared(policy["name"], *key))
        one.requests += 1
        one.outcomes[record["outcome"]] += 1
        one.targets[record["target"] or "none"] += 1
        if record["commit_ms"] is not None:
            one.commit_ms.append(record["commit_ms"])
    return list(found.values())


def shadowed(records: Iterable[Mapping[str, Any]]) -> list[Shadowed]:
    """Count what shadows would have changed, by their version; requests before the first answer do not count."""
    found: dict[int, Shadowed] = {}
    latest: Shadowed | None = None
    for record in _outcomes(records):
        would = record.get("shadow")
        if would is not None:
            latest = found.setdefault(would["version"], Shadowed(would["name"], would["version"]))
            _count(latest, would)
        if latest is not None:
            latest.requests += 1
    return list(found.values())


def _count(one: Shadowed, would: Mapping[str, Any]) -> None:
    one.asked += 1
    one.inexact += would["inexact"]
    one.looser.update(would["looser"])
    one.stricter.update(would["stricter"])
    if would["from"] != would["to"]:
        one.moved[(would["from"] or "none", would["to"] or "none")] += 1


def _outcomes(records: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """Outcomes of requests that were decided; records of an older version do not say by which policy."""
    for record in records:
        policy = record.get("policy")
        if record.get("kind") == "outcome" and isinstance(policy, Mapping) and "version" in policy:
            yield record
