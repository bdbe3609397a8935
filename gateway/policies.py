"""The policy in force. A request keeps the one that it began with."""

from __future__ import annotations

from routing_policies.policy.loader import LoadedPolicy


class PolicyHolder:
    """Holds the current policy; replacing it is one assignment, so no request ever sees half of a change."""

    def __init__(self, loaded: LoadedPolicy) -> None:
        """Start with a policy."""
        self._current = loaded

    @property
    def current(self) -> LoadedPolicy:
        """The policy that a request which begins now is decided by."""
        return self._current
