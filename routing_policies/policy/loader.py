"""From a policy file to a policy that can decide. Whatever is wrong with it is found here, with its place.

Reading compiles a policy; loading also proves its invariants. Only what was loaded may be put in force.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import orjson
from pydantic import ValidationError

from routing_policies.lab.prover import Prover
from routing_policies.policy import names, validation
from routing_policies.policy.conditions import Answer, Condition, Evaluation, Vocabulary, compile_condition
from routing_policies.policy.errors import PolicyError, choice
from routing_policies.policy.expression import SyntaxFault
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.model import Policy
from routing_policies.policy.names import Scope
from routing_policies.policy.rules import HardRule, SoftRule
from routing_policies.policy.yaml_source import MAX_BYTES, Source, read
from routing_policies.signals.deadline import DeadlineDefaults
from routing_policies.signals.label import LabelRules

__all__ = ["LoadedPolicy", "builtin_names", "builtin_text", "load_policy", "load_text", "read_policy", "read_text"]

_BUILTIN = "routing_policies.builtin"


def builtin_names() -> list[str]:
    """The names of the policies that come with Tidegate."""
    found = (entry.name for entry in resources.files(_BUILTIN).iterdir())
    return sorted(name.removesuffix(".yaml") for name in found if name.endswith(".yaml"))


def builtin_text(name: str) -> str:
    """The text of a policy that comes with Tidegate."""
    return resources.files(_BUILTIN).joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def load_policy(source: Path | str, prover: Prover | None = None) -> LoadedPolicy:
    """Load a policy from a file, or a built-in one by its name; a prover that is kept remembers what it has proved.

    Raises:
        PolicyError: It cannot be read, is wrong or breaks an invariant; with file, line, column and how to mend it.
    """
    return _proved(read_policy(source), prover or Prover())


def load_text(text: str, origin: str, prover: Prover | None = None) -> LoadedPolicy:
    """Load a policy from its text; `origin` names it in messages.

    Raises:
        PolicyError: As `load_policy`.
    """
    return _proved(read_text(text, origin), prover or Prover())


def _proved(loaded: LoadedPolicy, prover: Prover) -> LoadedPolicy:
    for index, finding in enumerate(prover.prove(loaded).findings):
        if not finding.holds:
            message = f"the invariant `{finding.invariant}` {finding.in_words()}"
            raise loaded.source.error(("invariants", index), message)
    return loaded


def read_policy(source: Path | str) -> LoadedPolicy:
    """Read a policy as `load_policy` does, without a proof of its invariants: to look at it, never to decide by it.

    Raises:
        PolicyError: It cannot be read or is wrong.
    """
    if isinstance(source, Path):
        return read_text(_read_file(source), str(source))
    if source not in builtin_names():
        raise PolicyError(source, 1, 1, f"there is no built-in policy `{source}`{choice(source, builtin_names())}")
    return read_text(builtin_text(source), f"builtin:{source}")


def read_text(text: str, origin: str) -> LoadedPolicy:
    """Read a policy from its text, as `read_policy`.

    Raises:
        PolicyError: As `read_policy`.
    """
    source = read(text, origin)
    try:
        policy = Policy.model_validate_json(orjson.dumps(source.value))
    except ValidationError as exc:
        raise validation.first_error(exc, source, Policy) from None
    validation.check_references(policy, source)
    compiler = _Compiler(policy, source)
    constraints = tuple(compiler.hard_rules())
    preferences = tuple(compiler.soft_rules())
    return LoadedPolicy(
        policy=policy,
        origin=origin,
        source=source,
        digest=hashlib.sha256(policy.model_dump_json(by_alias=True).encode()).hexdigest(),
        constraints=constraints,
        preferences=preferences,
        weights=policy.weights.normalised(),
        vocabulary=Vocabulary.of(_conditions(constraints, preferences), policy.targets),
        label_rules=LabelRules(policy.defaults.data_class, policy.uninspected, policy.findings.by_tag()),
        deadline_defaults=DeadlineDefaults(policy.defaults.total_ms, policy.defaults.ttft_ms),
    )


def _conditions(constraints: tuple[HardRule, ...], preferences: tuple[SoftRule, ...]) -> Iterator[Condition]:
    for rule in constraints:
        yield rule.when
        if rule.require is not None:
            yield rule.require
    for preference in preferences:
        yield preference.when


@dataclass(frozen=True, slots=True)
class _Compiler:
    policy: Policy
    source: Source

    def hard_rules(self) -> Iterator[HardRule]:
        for index, constraint in enumerate(self.policy.constraints):
            when = self._compile(("constraints", index, "when"), constraint.when, Scope.WHEN)
            if constraint.require is None:
                yield HardRule(constraint.id, when, denied=frozenset(constraint.deny or ()))
            else:
                yield self._requiring(constraint.id, when, ("constraints", index, "require"), constraint.require)
        for index, invariant in enumerate(self.policy.invariants):
            when = self._compile(("invariants", index, "when"), invariant.when, Scope.WHEN)
            yield self._requiring(invariant.id, when, ("invariants", index, "require"), invariant.require)

    def soft_rules(self) -> Iterator[SoftRule]:
        for index, preference in enumerate(self.policy.prefer):
            when = self._compile(("prefer", index, "when"), preference.when, Scope.PREFER)
            looks = any(name.startswith("target.") for name in when.reads)
            yield SoftRule(preference.id, when, preference.target, preference.weight, looks)

    def _requiring(self, rule_id: str, when: Condition, path: tuple[str | int, ...], require: str) -> HardRule:
        condition = self._compile(path, require, Scope.REQUIRE)
        return HardRule(rule_id, when, require=condition, settled=self._settled(condition))

    def _settled(self, condition: Condition) -> dict[str, Answer]:
        """The answers for each target, where the condition reads nothing of the request."""
        vocabulary = Vocabulary.of([condition], self.policy.targets)
        if vocabulary.request:
            return {}
        return {name: Evaluation.of_target(vocabulary, name).likely(condition) for name in self.policy.targets}

    def _compile(self, path: tuple[str | int, ...], text: str, scope: Scope) -> Condition:
        try:
            return compile_condition(text, names.schema(self.policy.targets), scope)
        except SyntaxFault as fault:
            raise self.source.error_within(path, text, fault.at, f"`{path[-1]}`: {fault.message}") from None


def _read_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as exc:
        raise PolicyError(str(path), 1, 1, f"cannot be read: {exc.strerror}") from None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise PolicyError(str(path), raw.count(b"\n", 0, exc.start) + 1, 1, "not UTF-8") from None
