"""How many requests and attempts ended in which way since the start: the numbers behind `/status` and metrics."""

from __future__ import annotations

from collections import Counter
from typing import Any

from gateway.exchange import Exchange
from inference_protocol.outcome import Outcome


class Tally:
    """Counts what is settled. The words are those of spans and records."""

    def __init__(self) -> None:
        """Start at nothing."""
        self.requests: Counter[Outcome] = Counter()
        self.attempts: Counter[tuple[str, Outcome]] = Counter()

    def count(self, exchange: Exchange) -> None:
        """Count a settled request and its attempts, each once."""
        if exchange.outcome is not None:
            self.requests[exchange.outcome] += 1
        for attempt in exchange.attempts:
            if attempt.outcome is not None:
                self.attempts[attempt.target, attempt.outcome] += 1

    def to_json(self) -> dict[str, Any]:
        """Return the counts by name."""
        by_target: dict[str, dict[str, int]] = {}
        for (target, outcome), count in sorted(self.attempts.items()):
            by_target.setdefault(target, {})[outcome.value] = count
        return {
            "requests": {outcome.value: count for outcome, count in sorted(self.requests.items())},
            "attempts": by_target,
        }
