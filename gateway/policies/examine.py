"""From a document to a policy that may be put in force, or to what is wrong with it. Too slow for the loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gateway.policies.bundle import Bundle, read_bundle
from gateway.policies.document import Document
from routing_policies.lab.lints import lint
from routing_policies.lab.prover import Prover
from routing_policies.policy.errors import PolicyError, choice, suggestion
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.loader import load_text
from routing_policies.policy.self_test import run_tests
from serving.signatures import Envelope, PublicKey


@dataclass(frozen=True, slots=True)
class Approvers:
    """Who may sign policies.

    Attributes:
        keys: A person's name to the keys that are theirs.
    """

    keys: Mapping[str, tuple[PublicKey, ...]] = field(default_factory=dict)

    def who_signed(self, envelope: Envelope) -> frozenset[str]:
        """Return the people whose valid signatures an envelope bears."""
        return frozenset(person for person, keys in self.keys.items() if envelope.signed_by(keys))


@dataclass(frozen=True, slots=True)
class Demands:
    """What this installation asks of a policy.

    Attributes:
        targets: Those that the settings say how to reach.
        approvers: Whose signatures count.
        signed: Whether only a bundle that one of them has signed is taken.
        four_eyes: Whether what is looser needs two of them.
    """

    targets: frozenset[str]
    approvers: Approvers = Approvers()
    signed: bool = False
    four_eyes: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy with which nothing is wrong.

    Attributes:
        people: Who signed it.
        bundle_version: Of its manifest, where it came in a bundle.
        warnings: Of rules that cannot matter, and of targets that it says nothing of.
    """

    document: Document
    loaded: LoadedPolicy
    people: frozenset[str] = frozenset()
    bundle_version: int | None = None
    warnings: tuple[str, ...] = ()


def examine(document: Document, demands: Demands, prover: Prover, now_s: float | None) -> Candidate:
    """Read a document, prove its invariants, run its tests, join it with the settings, check who signed it.

    Args:
        document: What was read.
        demands: Of this installation.
        prover: Remembers what it has proved.
        now_s: Seconds since the epoch, for what expires; `None` for what is in force already.

    Raises:
        PolicyError: Something is wrong with it; with file, line and column.
    """
    bundle = read_bundle(document)
    people = demands.approvers.who_signed(bundle.envelope) if bundle is not None else frozenset()
    if demands.signed and not people:
        raise _unsigned(document, bundle)
    if bundle is not None and now_s is not None:
        bundle.refuse_expired(document.origin, now_s)
    loaded = load_text(bundle.policy if bundle is not None else document.text, document.origin, prover)
    if bundle is not None and bundle.manifest.name != loaded.policy.name:
        message = f"the bundle's manifest says `{bundle.manifest.name}`, and the policy in it is `{loaded.policy.name}`"
        raise PolicyError(document.origin, 1, 1, message)
    _refuse_failing_tests(loaded)
    for unreachable in unreachable_targets(loaded, demands.targets):
        raise unreachable
    version = bundle.manifest.version if bundle is not None else None
    return Candidate(document, loaded, people, version, tuple(_warnings(loaded, demands.targets)))


def _unsigned(document: Document, bundle: Bundle | None) -> PolicyError:
    why = "the bundle bears no valid signature of an approver" if bundle is not None else "it is no signed bundle"
    how = "make one with `tidegate policy bundle` and `tidegate policy sign`; `rollout.approvers` says whose count"
    return PolicyError(document.origin, 1, 1, f"`rollout.require_signature` is set, and {why}: {how}")


def _refuse_failing_tests(loaded: LoadedPolicy) -> None:
    for failure in run_tests(loaded).failures:
        index = next(i for i, test in enumerate(loaded.policy.tests) if test.name == failure.test)
        raise loaded.source.error(("tests", index), f"test `{failure.test}` fails: {failure.message}")


def unreachable_targets(loaded: LoadedPolicy, targets: frozenset[str]) -> Iterator[PolicyError]:
    """Yield an error for each target of a policy that the settings, which have these, do not say how to reach."""
    for name in loaded.policy.targets:
        if name not in targets:
            hint = suggestion(name, targets)
            message = (
                f"no settings say how to reach the target `{name}`{hint}. Settings have: {', '.join(sorted(targets))}"
            )
            yield loaded.source.error(("targets", name), message, at_key=True)


def _warnings(loaded: LoadedPolicy, targets: frozenset[str]) -> Iterable[str]:
    for warning in lint(loaded):
        yield f"{warning.file}:{warning.line}:{warning.column}: {warning.message}"
    yield from unmentioned_targets(loaded, targets)


def unmentioned_targets(loaded: LoadedPolicy, targets: frozenset[str]) -> Iterator[str]:
    """Yield a warning for each target of the settings that a policy says nothing of."""
    for name in sorted(targets - loaded.policy.targets.keys()):
        hint = choice(name, loaded.policy.targets)
        yield f"The policy says nothing of the target `{name}`, so nothing is sent there{hint}."
