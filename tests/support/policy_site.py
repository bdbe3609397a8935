"""A policy file, a state folder, and the roll-out between them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gateway.policies.examine import Demands
from gateway.policies.holder import PolicyHolder
from gateway.policies.offers import By
from gateway.policies.rollout import Rollout
from gateway.policies.start import Begun, begin
from gateway.policies.store import VersionStore

ME = By("ada", "a test")


def policy(clearance: str = "internal", *, name: str = "site", more: str = "") -> str:
    """A policy whose cloud has this clearance; one with a higher one is looser."""
    return (
        f"apiVersion: tidegate/v1\nname: {name}\ndefaults: {{class: public}}\ntargets:\n"
        "  edge: {kind: edge, clearance: restricted}\n"
        f"  cloud: {{kind: cloud, clearance: {clearance}}}\n{more}"
    )


@dataclass
class Site:
    """A policy file, a state folder, and the roll-out between them."""

    folder: Path
    now: float = 1_700_000_000.0

    @property
    def file(self) -> Path:
        return self.folder / "policy.yaml"

    @property
    def store(self) -> VersionStore:
        return VersionStore(self.folder / "policies")

    def wall(self) -> float:
        self.now += 1.0
        return self.now

    def begin(self, demands: Demands | None = None) -> Begun:
        return begin(self.store, demands or DEMANDS, str(self.file), self.wall)

    def start(self, demands: Demands | None = None) -> Rollout:
        demands = demands or DEMANDS
        begun = self.begin(demands)
        rollout = Rollout(PolicyHolder(begun.in_force), self.store, demands, str(self.file), wall=self.wall)
        if begun.fault is not None:
            rollout.mark_stale(begun.fault)
        return rollout


DEMANDS = Demands(frozenset({"edge", "cloud"}))


def clearance(rollout: Rollout) -> str:
    return rollout.holder.current.policy.targets["cloud"].clearance.word
