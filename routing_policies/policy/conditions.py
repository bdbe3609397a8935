"""Conditions: compiled once with the policy, evaluated against the values of one request.

The evaluator has traps, and this wrapper is the only way to it: a name or type that is wrong shows there only at run
time, so `checker` settles both at load; whatever is not the literal `True` or `False`, and whatever raises, is an
`ERROR`, which every caller must take in the restrictive sense.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import cel

from routing_policies.policy import names
from routing_policies.policy.checker import Facts, check
from routing_policies.policy.expression import SyntaxFault, parse
from routing_policies.policy.model import Target
from routing_policies.policy.names import Scope, ValueType
from routing_policies.signals.size import TokenInterval
from routing_policies.snapshot import Snapshot
from routing_policies.view import RequestView

# What the evaluator raises: unknown names, missing fields, wrong types, overflow.
_EVALUATION_FAULTS = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


class Answer(Enum):
    """What a condition says of a request. `ERROR` is never taken for either of the others."""

    TRUE = "true"
    FALSE = "false"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Condition:
    """One checked and compiled condition.

    Attributes:
        program: With flat names: handing over nested values costs several times as much as evaluating a condition.
        reads: The dotted names and constants in it.
        token_thresholds: The numbers that it compares `size.tokens` with.
    """

    source: str
    program: cel.Program
    reads: frozenset[str] = frozenset()
    token_thresholds: tuple[int, ...] = ()

    def is_decided_by(self, tokens: TokenInterval) -> bool:
        """Whether bounds on the input tokens suffice, or an exact count is needed first."""
        if tokens.least == tokens.most:
            return True
        return not any(tokens.least <= threshold <= tokens.most for threshold in self.token_thresholds)


def compile_condition(source: str, schema: Mapping[str, ValueType], scope: Scope) -> Condition:
    """Check and compile a condition.

    Raises:
        SyntaxFault: It cannot be read, or does not pass the check; with the offset of the fault.
    """
    facts = check(parse(source), schema, scope)
    try:
        program = cel.compile(_with_flat_names(source, facts))
    except ValueError as exc:
        raise SyntaxFault(0, f"not CEL: {str(exc).splitlines()[0]}") from None
    return Condition(source, program, frozenset(name for _, name in facts.names), facts.token_thresholds)


def _with_flat_names(source: str, facts: Facts) -> str:
    for at, name in reversed(facts.names):
        source = source[:at] + _flat(name) + source[at + len(name) :]
    return source


def _flat(name: str) -> str:
    return name.replace(".", "__")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names that the conditions of one policy read; no other value is computed or handed over.

    Attributes:
        request: The names whose values come from the request or the device.
        constants: Constants by name.
        targets: Target to the values of its names, by flat name.
        states: The names whose values come from a target's state.
    """

    request: tuple[names.RequestName, ...]
    constants: Mapping[str, int]
    targets: Mapping[str, Mapping[str, Any]]
    states: tuple[names.StateName, ...] = ()

    @classmethod
    def of(cls, conditions: Iterable[Condition], targets: Mapping[str, Target]) -> Vocabulary:
        """Collect the names, and the values of those that the policy itself settles."""
        read = frozenset().union(*(condition.reads for condition in conditions))
        fields = [known for known in names.TARGET_NAMES if known.name in read]
        return cls(
            request=tuple(known for known in names.REQUEST_NAMES if known.name in read),
            constants={name: int(level) for name, level in names.CONSTANTS.items() if name in read},
            targets={
                name: {_flat(known.name): known.read(name, target) for known in fields}
                for name, target in targets.items()
            },
            states=tuple(known for known in names.STATE_NAMES if known.name in read),
        )


class Evaluation:
    """The conditions of one decision. Building it costs more than a condition does, so there is one a decision."""

    def __init__(
        self, vocabulary: Vocabulary, values: Mapping[str, Any], tokens: TokenInterval, snapshot: Snapshot
    ) -> None:
        """Take over values by flat name; use `of_request` or `of_target`."""
        self._context = cel.Context({**values, **vocabulary.constants})
        self._vocabulary = vocabulary
        self._tokens = tokens
        self._snapshot = snapshot
        self._target: str | None = None

    @classmethod
    def of_request(cls, vocabulary: Vocabulary, view: RequestView, snapshot: Snapshot) -> Evaluation:
        """Read the values of a request and what is so at the time."""
        values = {_flat(known.name): known.read(view, snapshot) for known in vocabulary.request}
        return cls(vocabulary, values, view.size.tokens, snapshot)

    @classmethod
    def of_target(cls, vocabulary: Vocabulary, target: str) -> Evaluation:
        """For conditions that read nothing of a request."""
        found = cls(vocabulary, {}, TokenInterval(0, 0, 0), Snapshot({}, 0.0))
        found.turn_to(target)
        return found

    def turn_to(self, target: str) -> None:
        """Let `target` mean this one from here on."""
        if target == self._target:
            return
        self._target = target
        for name, value in self._vocabulary.targets[target].items():
            self._context.add_variable(name, value)
        for known in self._vocabulary.states:
            self._context.add_variable(_flat(known.name), known.read(self._snapshot.targets.get(target)))

    def likely(self, condition: Condition) -> Answer:
        """Evaluate for a soft rule: the likely number of tokens stands for the true one."""
        try:
            found = condition.program.execute(self._context)
        except _EVALUATION_FAULTS:
            return Answer.ERROR
        if found is True:
            return Answer.TRUE
        return Answer.FALSE if found is False else Answer.ERROR

    def surely(self, condition: Condition) -> Answer:
        """Evaluate for a hard rule: bounds that leave its answer open make it an error."""
        if condition.token_thresholds and not condition.is_decided_by(self._tokens):
            return Answer.ERROR
        return self.likely(condition)
