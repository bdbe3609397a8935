"""From an offer to what is in force, or to a wait for signatures. Whatever can fail comes before the one assignment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gateway.off_loop import off_loop_in_short_turns
from gateway.policies.gate import Gate, Judged
from gateway.policies.held import Held
from gateway.policies.holder import InForce, PolicyHolder, Version
from gateway.policies.offers import By, Change, Offer
from gateway.policies.store import Event
from inference_protocol.errors import InvalidRequest
from serving.signatures import Envelope

_logger = logging.getLogger(__name__)


class Admission:
    """Takes offers, one at a time: whoever calls sees to that.

    Attributes:
        held: What waits for signatures.
        last_change: The last thing that was admitted since the start.
    """

    def __init__(self, holder: PolicyHolder, gate: Gate, wall: Callable[[], float]) -> None:
        """Admit to `holder` what passes the gate; `wall` gives seconds since the epoch."""
        self.held: Held | None = None
        self.last_change: Change | None = None
        self._holder = holder
        self._gate = gate
        self._wall = wall

    async def take(self, offer: Offer, file_sha256: str | None) -> Change:
        """Admit what is offered, or hold it until enough people have signed.

        Args:
            offer: What is offered.
            file_sha256: Of what the policy's file holds, hex.

        Raises:
            PolicyError: Something is wrong with it.
            OSError: It cannot be kept.
        """
        stable = self._holder.in_force.stable
        if stable.sha256 == offer.document.sha256:
            if offer.place == "in_force":
                self._let_go()
            return Change("unchanged", stable.number)
        if self.held is not None and self._is_held(offer, self.held):
            return self._still_held(self.held)
        judged = await off_loop_in_short_turns(self._gate.judge, offer, stable.loaded)
        if judged.missing:
            return await self._hold(offer, judged, file_sha256)
        return await self._admit(offer, judged, file_sha256)

    async def sign(self, envelope: Envelope, by: By) -> Change:
        """Add signatures to what waits for them, and admit it once there are enough.

        Raises:
            InvalidRequest: Nothing waits, or the signatures do not count.
            OSError: It cannot be kept.
        """
        if self.held is None:
            raise InvalidRequest("No policy waits for a signature: `tidegate policy status` says what is in force.")
        people = self.held.newly_signed(envelope, self._gate.approvers)
        version = self.held.judged.version
        await asyncio.to_thread(self._gate.note, "signed", version, by, self._holder.in_force, people)
        held = self.held = self.held.with_people(people)
        _logger.info("policy %s is signed by %s", version.loaded.policy.name, ", ".join(held.signed_by))
        if held.judged.missing:
            return self._still_held(held)
        return await self._admit(held.offer, held.judged, held.file_sha256)

    async def end(self, event: Event, version: Version, left: InForce, by: By) -> None:
        """Leave in force what is left when a trial ends.

        Raises:
            OSError: That cannot be written down.
        """
        await asyncio.to_thread(self._gate.note, event, version, by, left)
        self._holder.put(left)
        _logger.info("%s of policy %s by %s", event, version.loaded.policy.name, by.who)

    def _is_held(self, offer: Offer, held: Held) -> bool:
        waits = held.offer
        same = (waits.place, waits.share, waits.document.sha256) == (offer.place, offer.share, offer.document.sha256)
        return same and held.replaces == self._holder.current.digest

    def _still_held(self, held: Held) -> Change:
        judged = held.judged
        warnings = judged.candidate.warnings
        return Change("held", judged.version.number, judged.looser, warnings, held.signed_by, judged.missing)

    async def _hold(self, offer: Offer, judged: Judged, file_sha256: str | None) -> Change:
        now = self._holder.in_force
        await asyncio.to_thread(self._gate.keep, "held", judged, offer.by, now, file_sha256)
        self._let_go()
        held = self.held = Held(Held.new_id(), offer, judged, now.stable.loaded.digest, self._wall(), file_sha256)
        name, why = judged.candidate.loaded.policy.name, judged.looser[0].words
        _logger.warning("policy %s waits for %d signatures, since it is looser: %s", name, judged.missing, why)
        return self._still_held(held)

    def _let_go(self) -> None:
        """Have nothing wait any more."""
        if self.held is not None:
            version = self.held.judged.version
            _logger.warning("policy %s, version %d, waits no more", version.loaded.policy.name, version.number)
        self.held = None

    async def _admit(self, offer: Offer, judged: Judged, file_sha256: str | None) -> Change:
        in_force = offer.placing(self._holder.in_force, judged.version)
        await asyncio.to_thread(self._gate.keep, offer.place, judged, offer.by, in_force, file_sha256)
        self._holder.put(in_force)
        if self.held is not None and self.held.offer is offer:
            self.held = None
        elif self.held is not None and offer.place in {"in_force", self.held.offer.place}:
            # It was compared with another stable policy, or somebody has wished for something else in its place.
            self._let_go()
        change = Change(offer.place, judged.version.number, judged.looser, judged.candidate.warnings)
        self.last_change = change
        _say(change, judged.version, offer.by)
        return change


def _say(change: Change, version: Version, by: By) -> None:
    name, digest = version.loaded.policy.name, version.loaded.digest[:12]
    if change.looser and change.became != "shadow":
        _logger.warning("policy %s is looser than the one before it, in %d ways", name, len(change.looser))
        for loosening in change.looser[:10]:
            _logger.warning("looser: %s", loosening.words)
    for warning in change.warnings:
        _logger.warning("policy %s: %s", name, warning)
    _logger.info("policy %s@%s, version %d: %s, by %s", name, digest, version.number, change.became, by.who)
