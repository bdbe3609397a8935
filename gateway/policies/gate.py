"""What every policy must pass to be in force, and what is written down of it. It blocks: once running, in a thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gateway.policies.examine import Approvers, Candidate, Demands, examine
from gateway.policies.holder import InForce, Version
from gateway.policies.looser import Loosening, loosenings
from gateway.policies.offers import By, Offer
from gateway.policies.store import Entry, Event, VersionStore, trials_of
from gateway.policies.truncation import refuse_cut_off
from routing_policies.lab.prover import Prover
from routing_policies.policy.errors import PolicyError
from routing_policies.policy.loaded import LoadedPolicy

# So many different people must want what is looser, where the settings ask for that.
NEEDED = 2


@dataclass(frozen=True, slots=True)
class Judged:
    """A policy with which nothing is wrong.

    Attributes:
        looser: In what it is looser than the stable one.
        missing: How many signatures it needs before it may be in force.
    """

    candidate: Candidate
    version: Version
    looser: tuple[Loosening, ...]
    missing: int


class Gate:
    """Judges policies, and keeps those that are put in force."""

    def __init__(self, store: VersionStore, demands: Demands, source: str, wall: Callable[[], float]) -> None:
        """Set up; `wall` gives seconds since the epoch, and see `Rollout` for the others."""
        self._store = store
        self._demands = demands
        self._source = source
        self._wall = wall
        self._prover = Prover()

    @property
    def approvers(self) -> Approvers:
        """Whose signatures count."""
        return self._demands.approvers

    def judge(self, offer: Offer, before: LoadedPolicy | None) -> Judged:
        """Tell what is to be known of a policy before it may be in force.

        Raises:
            PolicyError: Something is wrong with it.
        """
        demands = self._demands if offer.signed else replace(self._demands, signed=False)
        candidate = examine(offer.document, demands, self._prover, self._wall())
        looser = loosenings(before, candidate.loaded)
        if offer.fresh:
            self._refuse_old(candidate)
            if candidate.bundle_version is None:  # a bundle names the sha256 of what it holds, so it is whole
                refuse_cut_off(before, candidate.loaded, looser=bool(looser))
        missing = NEEDED - len(candidate.people) if looser and self._demands.four_eyes and offer.signed else 0
        return Judged(candidate, self.version(candidate), looser, max(0, missing))

    def version(self, candidate: Candidate) -> Version:
        """Number a policy."""
        sha256 = candidate.document.sha256
        return Version(self._store.number_of(sha256), sha256, candidate.loaded)

    def keep(self, event: Event, judged: Judged, by: By, in_force: InForce, file_sha256: str | None) -> None:
        """Write down all that must outlive the process before a policy is in force.

        Raises:
            OSError: That cannot be written.
        """
        self._store.keep(judged.candidate.document)
        entry = self._entry(event, judged.version, by)
        details = {
            "file_sha256": file_sha256,
            "bundle_version": judged.candidate.bundle_version,
            "people": tuple(sorted(judged.candidate.people)),
            "looser": bool(judged.looser),
        }
        self._write(entry.model_copy(update=details), in_force)

    def note(
        self, event: Event, version: Version, by: By, in_force: InForce, people: frozenset[str] = frozenset()
    ) -> None:
        """Write down that a trial is over, or that people have signed.

        Raises:
            OSError: That cannot be written.
        """
        entry = self._entry(event, version, by)
        self._write(entry.model_copy(update={"people": tuple(sorted(people))}), in_force)

    def _refuse_old(self, candidate: Candidate) -> None:
        """An old bundle, whoever has signed it, may not come back by itself in the place of a newer one."""
        newest = self._store.newest_bundle(candidate.loaded.policy.name)
        if newest is None or newest.bundle_version is None or candidate.bundle_version is None:
            return
        signed_again = (candidate.bundle_version, candidate.loaded.digest) == (newest.bundle_version, newest.digest)
        if candidate.bundle_version <= newest.bundle_version and not signed_again:
            message = (
                f"the bundle has version {candidate.bundle_version}, and version {newest.bundle_version} was in force "
                "already: make one with a higher version, or go back with `tidegate policy activate`"
            )
            raise PolicyError(candidate.document.origin, 1, 1, message)

    def _entry(self, event: Event, version: Version, by: By) -> Entry:
        return Entry(
            time=datetime.fromtimestamp(self._wall(), UTC).isoformat(timespec="milliseconds"),
            event=event,
            number=version.number,
            sha256=version.sha256,
            digest=version.loaded.digest,
            name=version.loaded.policy.name,
            source=self._source,
            who=by.who,
            why=by.why,
        )

    def _write(self, entry: Entry, in_force: InForce) -> None:
        self._store.append(entry)
        self._store.write_trials(trials_of(in_force))
