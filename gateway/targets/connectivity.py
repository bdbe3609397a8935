"""How this box is connected to what is not on it: one word, that does not flap.

Evidence comes from the probes of targets that are elsewhere. What they find is believed once it has been found again
and again for some seconds, so that one lost packet changes nothing and one lucky one neither.

    cold      nothing has been heard yet
    online    every probe is answered
    degraded  some are, some are not
    captive   a web page answers where an API should: somebody wants a login first
    offline   none is answered
    metered   online or degraded, and each byte costs
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum

from routing_policies.snapshot import Connectivity

_logger = logging.getLogger(__name__)


class Evidence(StrEnum):
    """How one probe went."""

    ANSWERED = "answered"
    FAILED = "failed"
    CAPTIVE = "captive"


class ConnectivityWatch:
    """Gathers evidence of every address that is elsewhere, and says what it comes to."""

    def __init__(
        self,
        is_elsewhere: Callable[[str], bool],
        *,
        clock: Callable[[], float],
        metered: bool = False,
        settled_s: float = 3.0,
    ) -> None:
        """Start cold.

        Args:
            is_elsewhere: Whether a target, by name, is not this box.
            clock: Monotonic seconds.
            metered: Whether each byte costs.
            settled_s: How long probes must agree before a change is believed.
        """
        self._is_elsewhere = is_elsewhere
        self._clock = clock
        self._metered = metered
        self._settled_s = settled_s
        self._paths: dict[tuple[str, str], _Path] = {}
        self._state = Connectivity.COLD
        self.since = clock()

    @property
    def state(self) -> Connectivity:
        """How this box is connected."""
        return self._state

    @property
    def is_cut_off(self) -> bool:
        """Whether nothing that is elsewhere can be reached."""
        return self._state in {Connectivity.OFFLINE, Connectivity.CAPTIVE}

    def cuts_off(self, target: str) -> bool:
        """Whether a target, by name, cannot be reached since this box is not connected."""
        return self.is_cut_off and self._is_elsewhere(target)

    def probed(self, target: str, address: str, evidence: Evidence) -> None:
        """Take in how one probe went."""
        if not self._is_elsewhere(target):
            return
        now = self._clock()
        path = self._paths.get((target, address))
        if path is None:
            self._paths[target, address] = _Path(evidence)
        elif not path.changes(evidence, now, self._settled_s):
            return
        state = self._judged()
        if state is not self._state:
            level = logging.INFO if state is Connectivity.ONLINE else logging.WARNING
            _logger.log(level, "this device is %s, and was %s", state, self._state)
            self._state, self.since = state, now

    def _judged(self) -> Connectivity:
        found = {path.believed for path in self._paths.values()}
        if Evidence.CAPTIVE in found and Evidence.ANSWERED not in found:
            return Connectivity.CAPTIVE
        if found == {Evidence.FAILED}:
            return Connectivity.OFFLINE
        if self._metered:
            return Connectivity.METERED
        return Connectivity.ONLINE if found == {Evidence.ANSWERED} else Connectivity.DEGRADED


class _Path:
    """What is believed of one address, and what speaks against it."""

    __slots__ = ("_doubt", "_doubted_at", "believed")

    def __init__(self, first: Evidence) -> None:
        self.believed = first  # there is nothing older to hold on to
        self._doubt: Evidence | None = None
        self._doubted_at = 0.0

    def changes(self, evidence: Evidence, now: float, settled_s: float) -> bool:
        """Take in evidence; say whether another thing is believed from now on."""
        if evidence is self.believed:
            self._doubt = None
        elif evidence is not self._doubt:
            self._doubt, self._doubted_at = evidence, now
        elif now - self._doubted_at >= settled_s:
            self.believed, self._doubt = evidence, None
            return True
        return False
