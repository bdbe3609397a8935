"""Settings, policy and secrets: whether a start would take them."""

from __future__ import annotations

import time
from collections.abc import Iterator

from gateway.cli.doctor.finding import Finding, fail, ok, warn
from gateway.policies.document import read_document
from gateway.policies.examine import examine
from gateway.policies.wiring import demands_of
from gateway.settings import Settings
from routing_policies.lab.prover import Prover
from routing_policies.policy.errors import PolicyError


def policy(settings: Settings) -> Iterator[Finding]:
    """Read, prove and test the policy that the settings name, and join it with the targets."""
    try:
        candidate = examine(read_document(settings.policy), demands_of(settings), Prover(), time.time())
    except PolicyError as exc:
        yield fail("policy", str(exc), f"mend it, then `tidegate policy check {settings.policy} --settings FILE`")
        return
    loaded = candidate.loaded
    proved = len(loaded.policy.invariants)
    yield ok("policy", f"{loaded.policy.name} ({loaded.digest[:12]}): {proved} invariants proved, its tests pass")
    for warning in candidate.warnings:
        yield warn("policy", warning, "mend the policy, or leave it if it is meant so")


def secrets(settings: Settings) -> Iterator[Finding]:
    """Read each target's credential, and say who may call."""
    for name, target in settings.targets.items():
        check = f"credential {name}"
        try:
            headers = target.credential_headers()
        except ValueError as exc:
            yield fail(check, str(exc), f"mend `targets.{name}.credential`")
            continue
        if headers:
            yield ok(check, "can be read")
    if settings.auth.is_promised:
        yield ok("callers", "every caller must show a key or a token")
    else:
        yield ok("callers", "nobody needs a key, and only this machine can connect")
