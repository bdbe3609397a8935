"""What can be done about the policy in force, one thing at a time. What is wrong leaves the last good one in force."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gateway.policies.admission import Admission
from gateway.policies.document import Document, read_settled_document
from gateway.policies.examine import Demands
from gateway.policies.gate import Gate
from gateway.policies.held import Held
from gateway.policies.holder import Canary, InForce, PolicyHolder, Shadow, StickyBy, Version
from gateway.policies.offers import By, Change, Offer
from gateway.policies.store import VersionStore
from inference_protocol.errors import InvalidRequest
from routing_policies.policy.errors import PolicyError
from serving.signatures import Envelope

_NO_CANARY = "There is no canary: `tidegate policy canary start` begins one."

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stale:
    """What the policy's file holds cannot be put in force, so the policy in force is older.

    Attributes:
        since: Seconds since the epoch.
    """

    since: float
    fault: PolicyError


class Rollout:
    """Reloads, goes back, tries policies on some requests. Reading, proving and comparing happen in a thread.

    Attributes:
        holder: What is in force.
        store: The versions.
        stale: Set while the file holds something that cannot be put in force.
    """

    def __init__(
        self, holder: PolicyHolder, store: VersionStore, demands: Demands, source: str, *, wall: Callable[[], float]
    ) -> None:
        """Set up.

        Args:
            holder: Of what is in force.
            store: Keeps the versions.
            demands: What this installation asks of a policy.
            source: The built-in policy or file that the settings name.
            wall: Seconds since the epoch.
        """
        self.holder = holder
        self.store = store
        self.stale: Stale | None = None
        self.source = source
        self._admission = Admission(holder, Gate(store, demands, source, wall), wall)
        self._wall = wall
        self._one_at_a_time = asyncio.Lock()
        last = store.last_in_force
        self._taken_from_file = last.file_sha256 if last is not None else None

    @property
    def held(self) -> Held | None:
        """What waits for signatures."""
        return self._admission.held

    @property
    def last_change(self) -> Change | None:
        """The last thing that was put in force since the start."""
        return self._admission.last_change

    @property
    def stale_s(self) -> float:
        """For how many seconds the policy in force has been older than its file; 0 while it is not."""
        return 0.0 if self.stale is None else max(0.0, self._wall() - self.stale.since)

    async def reload(self, by: By, *, only_if_changed: bool = False) -> Change:
        """Put in force what the file holds now.

        Args:
            by: Who asks.
            only_if_changed: As long as the file stays the same, leave a version that an operator went back to.

        Raises:
            PolicyError: That cannot be; the policy in force stays, and `stale` says so.
        """
        async with self._one_at_a_time:
            try:
                document = await asyncio.to_thread(read_settled_document, self.source)
                if only_if_changed and document.sha256 == self._taken_from_file:
                    change = Change("unchanged", self.holder.in_force.stable.number)
                else:
                    change = await self._take(Offer(document, by, "in_force", InForce.with_stable), document.sha256)
            except PolicyError as exc:
                self.mark_stale(exc)
                raise
            self._taken_from_file = document.sha256
            self.stale = None
            return change

    def mark_stale(self, fault: PolicyError) -> None:
        """Say that what the file holds cannot be put in force."""
        if self.stale is None or str(self.stale.fault) != str(fault):
            _logger.error("the policy in force stays, since the new one is refused: %s", fault)
        self.stale = Stale(self._wall() if self.stale is None else self.stale.since, fault)

    async def activate(self, number: int, by: By) -> Change:
        """Put a version that was in force before in force again.

        Raises:
            InvalidRequest: There is none with this number.
            PolicyError: It is not good any more.
        """
        async with self._one_at_a_time:
            return await self._activate(number, by)

    async def rollback(self, by: By) -> Change:
        """Put the version in force that was in force before this one.

        Raises:
            InvalidRequest: There was none.
            PolicyError: It is not good any more.
        """
        async with self._one_at_a_time:
            now = self.holder.in_force.stable.number
            before = self.store.in_force_before(now)
            if before is None:
                raise InvalidRequest("There is no version to go back to: the one in force is the first.")
            return await self._activate(before.number, by)

    async def start_canary(self, document: Document, percent: float, sticky: StickyBy, by: By) -> Change:
        """Let a policy decide for some requests.

        Raises:
            PolicyError: Something is wrong with it.
        """

        def place(now: InForce, version: Version) -> InForce:
            return replace(now, canary=Canary(version, percent, sticky))

        async with self._one_at_a_time:
            offer = Offer(document, by, "canary", place, share=f"{percent:g} % by {sticky}")
            return await self._take(offer, self._taken_from_file)

    async def start_shadow(self, document: Document, percent: float, by: By) -> Change:
        """Ask a policy what it would decide, and never act on it; so it needs no signature.

        Raises:
            PolicyError: Something is wrong with it.
        """

        def place(now: InForce, version: Version) -> InForce:
            return replace(now, shadow=Shadow(version, percent))

        async with self._one_at_a_time:
            offer = Offer(document, by, "shadow", place, signed=False, fresh=False)
            return await self._take(offer, self._taken_from_file)

    async def promote_canary(self, by: By) -> Change:
        """Put the canary in force for all requests.

        Raises:
            InvalidRequest: There is none.
            PolicyError: It is not good any more.
        """
        async with self._one_at_a_time:
            canary = self.holder.in_force.canary
            if canary is None:
                raise InvalidRequest(_NO_CANARY)
            document = await asyncio.to_thread(self.store.document, canary.version.sha256)
            # It was signed, where that is asked, as it began beside the very policy that is stable now.
            offer = Offer(document, by, "in_force", InForce.with_stable, signed=False, fresh=False)
            return await self._take(offer, self._taken_from_file)

    async def end_canary(self, by: By) -> None:
        """Have the stable policy decide for all requests again.

        Raises:
            InvalidRequest: There is no canary.
            PolicyError: That cannot be written down.
        """
        async with self._one_at_a_time:
            now = self.holder.in_force
            if now.canary is None:
                raise InvalidRequest(_NO_CANARY)
            with self._kept():
                await self._admission.end("canary_ended", now.canary.version, replace(now, canary=None), by)

    async def end_shadow(self, by: By) -> None:
        """Ask the shadow no more.

        Raises:
            InvalidRequest: There is none.
            PolicyError: That cannot be written down.
        """
        async with self._one_at_a_time:
            now = self.holder.in_force
            if now.shadow is None:
                raise InvalidRequest("There is no shadow: `tidegate policy shadow start` begins one.")
            with self._kept():
                await self._admission.end("shadow_ended", now.shadow.version, replace(now, shadow=None), by)

    async def approve(self, envelope: Envelope, by: By) -> Change:
        """Add signatures to what waits for them, and put it in force once there are enough.

        Raises:
            InvalidRequest: Nothing waits, or the signatures do not count.
            PolicyError: It cannot be kept.
        """
        async with self._one_at_a_time:
            with self._kept():
                return await self._admission.sign(envelope, by)

    async def _activate(self, number: int, by: By) -> Change:
        entry = next((each for each in self.store.versions if each.number == number), None)
        if entry is None:
            known = ", ".join(str(each.number) for each in self.store.versions[-10:])
            raise InvalidRequest(f"There is no version {number}; there are {known}.", param="number")
        document = await asyncio.to_thread(self.store.document, entry.sha256)
        return await self._take(
            Offer(document, by, "in_force", InForce.with_stable, fresh=False), self._taken_from_file
        )

    async def _take(self, offer: Offer, file_sha256: str | None) -> Change:
        with self._kept():
            return await self._admission.take(offer, file_sha256)

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """What cannot be written down does not happen.

        Raises:
            PolicyError: It cannot.
        """
        try:
            yield
        except OSError as exc:
            message = f"the state folder cannot keep what changes: {exc.strerror}; nothing has changed"
            raise PolicyError(self.source, 1, 1, message) from None
