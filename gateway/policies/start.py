"""The policy that a gateway starts with: what the settings name, or the last good one where that is refused.

A broken file must not take the gateway down at its next restart, and must not do more than it would do to a running
one: the last good version stays, and `/readyz`, the log and `tidegate policy status` say so. Where there is none, or it
was another file's, there is no start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from gateway.policies.document import read_settled_document
from gateway.policies.examine import Demands, examine
from gateway.policies.gate import NEEDED, Gate
from gateway.policies.holder import Canary, InForce, Shadow, Version
from gateway.policies.looser import loosenings
from gateway.policies.offers import By, Offer
from gateway.policies.store import Entry, VersionStore
from routing_policies.lab.prover import Prover
from routing_policies.policy.errors import PolicyError

_FOUR_EYES = f"`rollout.four_eyes` is set, so it needs the signatures of {NEEDED} people"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Begun:
    """What a gateway starts with.

    Attributes:
        fault: Why what the settings name is not in force.
    """

    in_force: InForce
    fault: PolicyError | None = None


def begin(store: VersionStore, demands: Demands, source: str, wall: Callable[[], float]) -> Begun:
    """Choose the policy to start with, and write down what is in force.

    Raises:
        PolicyError: It is refused, and there is no last good one.
        OSError: That cannot be written down.
    """
    entry = store.last_in_force
    last = None if entry is None else _last_good(store, entry, demands)
    try:
        document = read_settled_document(source)
        # As it was when the last version was put in force, be it that one or one that an operator went back to.
        if entry is not None and last is not None and document.sha256 in {entry.sha256, entry.file_sha256}:
            return Begun(_with_trials(store, last, demands))
        gate = Gate(store, demands, source, wall)
        offer = Offer(document, By("start"), "in_force", InForce.with_stable)
        judged = gate.judge(offer, last.loaded if last is not None else None)
        if judged.missing:
            raise PolicyError(
                document.origin,
                1,
                1,
                f"{_FOUR_EYES}: {judged.looser[0].words}; "
                "sign a bundle of it with `tidegate policy bundle` and `tidegate policy sign`",
            )
    except PolicyError as exc:
        if entry is None or last is None or entry.source != source:
            raise
        return Begun(_with_trials(store, last, demands), exc)
    for loosening in judged.looser if last is not None else ():
        _logger.warning("looser than the policy that was in force: %s", loosening.words)
    for warning in judged.candidate.warnings:
        _logger.warning("policy %s: %s", judged.candidate.loaded.policy.name, warning)
    in_force = InForce(judged.version)
    gate.keep("in_force", judged, offer.by, in_force, document.sha256)
    return Begun(in_force)


def _last_good(store: VersionStore, entry: Entry, demands: Demands) -> Version | None:
    """The version that was in force last, if it is still good."""
    try:
        return _version(store, entry.sha256, demands)
    except PolicyError as exc:
        _logger.error("the policy that was in force last is not good any more: %s", exc)
        return None


def _version(store: VersionStore, sha256: str, demands: Demands) -> Version:
    """What was in force stays, also where its bundle has expired since."""
    candidate = examine(store.document(sha256), demands, Prover(), now_s=None)
    return Version(store.number_of(sha256), sha256, candidate.loaded)


def _with_trials(store: VersionStore, stable: Version, demands: Demands) -> InForce:
    """What was on trial beside this version goes on; what is not good any more does not."""
    trials = store.trials
    canary = shadow = None
    try:
        if trials.canary is not None and trials.canary.beside == stable.sha256:
            version = _version(store, trials.canary.sha256, demands)
            if demands.four_eyes and len(store.signers(version.sha256)) < NEEDED:
                _refuse_looser(stable, version)
            canary = Canary(version, trials.canary.percent, trials.canary.by)
        if trials.shadow is not None:
            unsigned = replace(demands, signed=False)
            shadow = Shadow(_version(store, trials.shadow.sha256, unsigned), trials.shadow.percent)
    except PolicyError as exc:
        _logger.error("what was on trial is not good any more: %s", exc)
    return InForce(stable, canary, shadow)


def _refuse_looser(stable: Version, canary: Version) -> None:
    """A canary that nobody has signed, since nobody asked for that when it began, decides for nobody any more.

    Raises:
        PolicyError: It is looser than the stable one.
    """
    looser = loosenings(stable.loaded, canary.loaded)
    if looser:
        raise PolicyError(canary.loaded.origin, 1, 1, f"{_FOUR_EYES}: {looser[0].words}; begin the canary again")
