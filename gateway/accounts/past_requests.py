"""Requests out of the records: each decision joined with its outcome, and with what its policy declares of targets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gateway.accounts.account import Ended, Spent
from gateway.policies.bundle import read_bundle
from gateway.policies.store import VersionStore
from inference_protocol import paths
from inference_protocol.outcome import Outcome
from routing_policies.policy.errors import PolicyError
from routing_policies.policy.loader import read_text
from routing_policies.policy.model import Target

NOBODY = "-"
Promises = Mapping[str, Target]


class KnownPolicies:
    """What policies that were in force declare of targets, by the digests that records bear."""

    def __init__(self, store: VersionStore) -> None:
        """Look policies up in `store`."""
        self._store = store
        self._sha256_of = {entry.digest: entry.sha256 for entry in store.history()}
        self._found: dict[str, Promises] = {}

    def promises(self, digest: str) -> Promises:
        """What a policy declares of its targets; nothing where it is not kept any more."""
        if digest not in self._found:
            self._found[digest] = self._read(digest)
        return self._found[digest]

    def _read(self, digest: str) -> Promises:
        sha256 = self._sha256_of.get(digest)
        if sha256 is None:
            return {}
        try:
            document = self._store.document(sha256)
            bundle = read_bundle(document)
            text = document.text if bundle is None else bundle.policy
            return read_text(text, document.origin).policy.targets
        except PolicyError:
            return {}


class PastRequests:
    """The requests that asked for an answer and are over.

    Attributes:
        unreadable: Outcomes that were passed over: they were written by another version.
    """

    def __init__(self, records: Iterable[Mapping[str, Any]], policies: KnownPolicies, since: str) -> None:
        """Read nothing yet.

        Args:
            records: Decisions and outcomes, oldest first.
            policies: Those that may have decided.
            since: UTC in ISO 8601; what ended before is passed over.
        """
        self._records = records
        self._policies = policies
        self._since = since
        self.unreadable = 0

    def __iter__(self) -> Iterator[Ended]:
        """Join and yield them, oldest first."""
        open_ones: dict[str, Mapping[str, Any]] = {}
        for record in self._records:
            if record.get("kind") == "decision":
                open_ones[record["request_id"]] = record
            elif record.get("kind") == "outcome":
                decision = open_ones.pop(record["request_id"], None)
                if record["time"] >= self._since and record.get("route") != paths.ROUTE_EXPLAIN:
                    yield from self._read(record, decision)

    def _read(self, outcome: Mapping[str, Any], decision: Mapping[str, Any] | None) -> Iterator[Ended]:
        try:
            policy = outcome["policy"]
            ended = _ended(outcome, decision, {} if policy is None else self._policies.promises(policy["digest"]))
        except KeyError:
            self.unreadable += 1
        else:
            yield ended


def _ended(outcome: Mapping[str, Any], decision: Mapping[str, Any] | None, promises: Promises) -> Ended:
    attempts = outcome["attempts"]
    words = {
        "tenant": outcome["tenant"] or NOBODY,
        "target": outcome["target"] or NOBODY,
        "model": decision["model"] if decision is not None else NOBODY,
        "class": decision["label"]["class"] if decision is not None else NOBODY,
    }
    answering = [place for place, each in enumerate(attempts) if each["target"] == outcome["target"] and each["tokens"]]
    return Ended(
        words,
        is_good=_is_good(outcome, decision),
        body_bytes=decision["size"]["body_bytes"] if decision is not None else 0,
        attempts=tuple(map(_spent, attempts)),
        answered=answering[-1] if answering else None,
        promises=promises,
    )


def _is_good(outcome: Mapping[str, Any], decision: Mapping[str, Any] | None) -> bool:
    """Whether it was answered, and inside its budgets."""
    if outcome["outcome"] not in {Outcome.OK, Outcome.FINISHED_DETACHED}:
        return False
    if decision is None:
        return True
    bounds = ((outcome["duration_ms"], "total_ms"), (outcome["commit_ms"], "ttft_ms"))
    budget = decision["budget"]
    return all(budget[bound] is None or took is None or took <= budget[bound] for took, bound in bounds)


def _spent(attempt: Mapping[str, Any]) -> Spent:
    tokens = attempt["tokens"] or {}
    return Spent(
        attempt["target"],
        attempt["bytes_out"],
        attempt["duration_ms"] / 1000,
        tokens.get("input", 0),
        tokens.get("cached", 0),
        tokens.get("output", 0),
    )
