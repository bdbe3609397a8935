"""A policy that waits for signatures: it is looser than the one in force, and two different people must want it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Self

import orjson

from gateway.policies.examine import Approvers
from gateway.policies.gate import NEEDED, Judged
from gateway.policies.offers import Offer
from inference_protocol.errors import InvalidRequest
from serving.signatures import Envelope

APPROVAL_KIND = "application/vnd.tidegate.policy-approval+json"


def approval(held_id: str, sha256: str, replaces: str) -> Envelope:
    """The statement that approvers sign.

    Args:
        held_id: Of the very wait, so that a signature is of no use for another one.
        sha256: Of the document, hex.
        replaces: Digest of the policy in force, hex: looser than another one says nothing.
    """
    statement = {"held": held_id, "replaces": replaces, "sha256": sha256}
    return Envelope(APPROVAL_KIND, orjson.dumps(statement, option=orjson.OPT_SORT_KEYS))


@dataclass(frozen=True, slots=True)
class Held:
    """One wait.

    Attributes:
        id: Never used before.
        replaces: Digest of the policy that it was compared with.
        since: Seconds since the epoch.
        file_sha256: Of what the policy's file held, hex.
    """

    id: str
    offer: Offer
    judged: Judged
    replaces: str
    since: float
    file_sha256: str | None

    @property
    def signed_by(self) -> tuple[str, ...]:
        """Who has signed, in the order of their names."""
        return tuple(sorted(self.judged.candidate.people))

    @staticmethod
    def new_id() -> str:
        """An id that was never used."""
        return secrets.token_hex(8)

    def newly_signed(self, envelope: Envelope, approvers: Approvers) -> frozenset[str]:
        """Return who signed the approval of this very wait.

        Raises:
            InvalidRequest: It is the approval of something else, or nobody's whose signature counts.
        """
        wanted = approval(self.id, self.offer.document.sha256, self.replaces)
        if (envelope.kind, envelope.payload) != (wanted.kind, wanted.payload):
            raise InvalidRequest("What was signed is not the policy that waits now: look at it again, then sign.")
        people = approvers.who_signed(envelope)
        if not people:
            raise InvalidRequest("No valid signature of an approver: `rollout.approvers` says whose keys count.")
        return people

    def with_people(self, people: frozenset[str]) -> Self:
        """Return the wait with more people who have signed."""
        all_people = self.judged.candidate.people | people
        candidate = replace(self.judged.candidate, people=all_people)
        missing = max(0, NEEDED - len(all_people))
        return replace(self, judged=replace(self.judged, candidate=candidate, missing=missing))
