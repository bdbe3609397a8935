"""What changes from one policy to another beside who may answer: what class data gets, and what is done to it.

Two policies may let the same targets answer and yet protect data differently: one masks answers, or sends tokens in
the place of names, or has its rules read a budget that it assumes where none is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inference_protocol.text_parts import UninspectableCause
from routing_policies.lab.diff import Direction
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.model import Answers, AnswerScanning, Findings
from routing_policies.signals.label import NOTED, DataClass, LabelRules

_SCANS = tuple(AnswerScanning)  # from the loosest to the strictest


@dataclass(frozen=True, slots=True)
class HandlingChange:
    """Something that is done otherwise than before."""

    direction: Direction
    what: str
    before: str
    after: str

    def in_words(self) -> str:
        """The change for a person."""
        return f"{self.what} is {self.after}, and was {self.before}"


def compare_handling(before: LoadedPolicy, after: LoadedPolicy) -> list[HandlingChange]:
    """Return what the policies label or treat otherwise, looser ones first. What cannot be ordered counts as looser."""
    found = [
        *_labels(before, after),
        *_answers(before, after),
        *_pseudonyms(before, after),
        *_places(before, after),
        *_assumptions(before, after),
    ]
    return sorted(found, key=lambda change: change.direction)


def _labels(before: LoadedPolicy, after: LoadedPolicy) -> Iterator[HandlingChange]:
    for (what, old), (_, new) in zip(_classes(before.label_rules), _classes(after.label_rules), strict=True):
        if old != new:
            yield HandlingChange(_looser_if(new < old), what, old.word, new.word)


def _classes(rules: LabelRules) -> Iterator[tuple[str, DataClass]]:
    yield "a request of which nobody says anything", rules.default
    for tag in (*Findings().by_tag(), *sorted(NOTED)):
        yield f"a finding of {tag}", rules.of_tag(tag)
    for cause in UninspectableCause:
        yield f"what cannot be inspected ({cause})", rules.of_cause(cause)


def _answers(before: LoadedPolicy, after: LoadedPolicy) -> Iterator[HandlingChange]:
    for tag in Findings().by_tag():
        old, new = _scan(before.policy.answers, tag), _scan(after.policy.answers, tag)
        if old is not new:
            looser = _SCANS.index(new) < _SCANS.index(old)
            yield HandlingChange(_looser_if(looser), f"`answers.scan` of {tag}", f"`{old}`", f"`{new}`")


def _scan(answers: Answers, tag: str) -> AnswerScanning:
    return answers.scan if tag in answers.tags else AnswerScanning.OFF


def _pseudonyms(before: LoadedPolicy, after: LoadedPolicy) -> Iterator[HandlingChange]:
    for name in after.policy.targets:
        if name in before.policy.targets:
            for tag in _sent_as_it_is(after, name, of=before):
                yield HandlingChange(Direction.LOOSER, f"{tag} that {name} is sent", "tokens", "what was found")
            for tag in _sent_as_it_is(before, name, of=after):
                yield HandlingChange(Direction.STRICTER, f"{tag} that {name} is sent", "what was found", "tokens")


def _sent_as_it_is(loaded: LoadedPolicy, name: str, *, of: LoadedPolicy) -> Iterator[str]:
    """Tags that a target is sent by one policy, as far as clearance and tags tell, and `of` another has replaced."""
    target = loaded.policy.targets[name]
    for tag in sorted({*of.policy.targets[name].pseudonymize} - {*target.pseudonymize}):
        if target.allows_tag(tag) and loaded.label_rules.of_tag(tag) <= target.clearance:
            yield tag


def _places(before: LoadedPolicy, after: LoadedPolicy) -> Iterator[HandlingChange]:
    """What cannot be written down may not leave this device: that hangs on what a policy says runs here."""
    for name, target in after.policy.targets.items():
        old = before.policy.targets.get(name, target)
        if old.on_device != target.on_device:
            yield HandlingChange(_looser_if(target.on_device), f"`kind` of {name}", f"`{old.kind}`", f"`{target.kind}`")


def _assumptions(before: LoadedPolicy, after: LoadedPolicy) -> Iterator[HandlingChange]:
    """Defaults that a hard rule reads: by another one, the same request may go elsewhere, and nobody knows where."""
    rules = (*before.constraints, *after.constraints)
    read = {name for rule in rules for side in (rule.when, rule.require) if side is not None for name in side.reads}
    old, new = before.policy.defaults, after.policy.defaults
    budgets = any(name.startswith("deadline.") for name in read)
    defaults = [
        ("total_ms", old.total_ms, new.total_ms, budgets),
        ("ttft_ms", old.ttft_ms, new.ttft_ms, budgets),
        ("max_tokens", old.max_tokens, new.max_tokens, "request.output_cap" in read),
    ]
    for name, was, now, matters in defaults:
        if matters and was != now:
            what = f"`defaults.{name}`, which rules read,"
            yield HandlingChange(Direction.LOOSER, what, _number(was), _number(now))


def _number(number: float | None) -> str:
    return "none" if number is None else f"{number:g}"


def _looser_if(looser: bool) -> Direction:
    return Direction.LOOSER if looser else Direction.STRICTER
