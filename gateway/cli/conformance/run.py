"""The cases in the order they are run, and what each came to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gateway.cli.conformance import answers, errors, framing, streams
from gateway.cli.conformance.findings import NotApplicable, Violation
from gateway.cli.conformance.wire import Gateway

Case = Callable[[Gateway], None]

GROUPS: Mapping[str, tuple[Case, ...]] = {
    "answers": answers.CASES,
    "streams": streams.CASES,
    "errors": errors.CASES,
    "framing": framing.CASES,
}


class Outcome(StrEnum):
    """How a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Result:
    """What one case came to.

    Attributes:
        case: The rule, as a sentence.
        why: What breaks it, or why it says nothing; empty where it passed.
    """

    group: str
    case: str
    outcome: Outcome
    why: str
    ms: float


def run(gateway: Gateway, groups: Mapping[str, tuple[Case, ...]] = GROUPS) -> Iterator[Result]:
    """Run each case and yield what it came to, one after the other: some look at what the one before left behind.

    A gateway that does not even take a connection fails the case at hand, and the next is tried all the same.
    """
    for group, cases in groups.items():
        for case in cases:
            started = time.perf_counter()
            outcome, why = _outcome(case, gateway)
            ms = (time.perf_counter() - started) * 1000
            yield Result(group, sentence(case), outcome, why, round(ms, 1))


def sentence(case: Case) -> str:
    """A case's name, as a person reads it."""
    words = (
        case.__name__.replace("_", " ").replace("utf8", "UTF-8").replace(" json", " JSON").replace(" done", " [DONE]")
    )
    return words[0].upper() + words[1:]


def share_passed(results: list[Result]) -> float:
    """The share that passed of the cases that apply; 1.0 where none does."""
    applied = [each for each in results if each.outcome is not Outcome.NOT_APPLICABLE]
    return sum(each.outcome is Outcome.PASSED for each in applied) / len(applied) if applied else 1.0


def _outcome(case: Case, gateway: Gateway) -> tuple[Outcome, str]:
    try:
        case(gateway)
    except NotApplicable as exc:
        return Outcome.NOT_APPLICABLE, str(exc)
    except Violation as exc:
        return Outcome.FAILED, str(exc)
    except OSError as exc:
        return Outcome.FAILED, f"no connection: {exc.strerror or type(exc).__name__}"
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as exc:
        # Whatever may stand in an answer, a case reads it as if it had the shape it should have.
        return Outcome.FAILED, f"the answer has another shape ({type(exc).__name__}: {str(exc)[:60]})"
    return Outcome.PASSED, ""
