"""What the caller is told when nobody may answer: the error that says what would have to change."""

from __future__ import annotations

from inference_protocol.errors import (
    CapabilityUnavailable,
    ContextLengthExceeded,
    DeadlineExceeded,
    NoTargetAvailable,
    PolicyRefused,
    TidegateError,
    UnknownModel,
)
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.verdict import ExclusionKind, Verdict

# How soon asking again may help: a supervised runtime is back within seconds.
_RETRY_AFTER_S = 5.0
_BY_POLICY = frozenset({ExclusionKind.CLEARANCE, ExclusionKind.TAG, ExclusionKind.CONSTRAINT})


def refusal(verdict: Verdict, policy: LoadedPolicy) -> TidegateError:
    """Make the error for a verdict without an eligible target.

    The targets that came closest decide: those that are merely down, else those that would be too late, else those
    whose window or abilities fall short, else the policy. Of the request it says the class and the tags, nothing more.
    """
    kinds = {exclusion.kind for exclusion in verdict.excluded.values()}
    details = {
        name: {"kind": exclusion.kind.value, "rule": exclusion.rule, "detail": exclusion.detail}
        for name, exclusion in verdict.excluded.items()
    }
    if ExclusionKind.DOWN in kinds:
        message = f"{_so_near(verdict, ExclusionKind.DOWN)}. Try again shortly."
        return NoTargetAvailable(message, retry_after_s=_back_in_s(verdict), details=details)
    if ExclusionKind.BUDGET in kinds:
        return DeadlineExceeded(f"{_so_near(verdict, ExclusionKind.BUDGET)}. Allow more time.", details=details)
    if ExclusionKind.WINDOW in kinds:
        message = f"{_so_near(verdict, ExclusionKind.WINDOW)}. Shorten the prompt or lower `max_tokens`."
        return ContextLengthExceeded(message, param="messages", details=details)
    if ExclusionKind.CAPABILITY in kinds:
        param = next((exclusion.field for exclusion in verdict.excluded.values() if exclusion.field), None)
        return CapabilityUnavailable(f"{_so_near(verdict, ExclusionKind.CAPABILITY)}.", param=param, details=details)
    if not kinds & _BY_POLICY:
        message = "No target serves the model that `model` names; `GET /v1/models` lists those that are served."
        return UnknownModel(message, param="model", details=details)
    refused = [name for name, exclusion in verdict.excluded.items() if exclusion.kind in _BY_POLICY]
    message = (
        f"This request is labelled {_labelled(verdict)}, and the policy `{policy.policy.name}` lets no target "
        f"answer it: {_each(verdict, refused)}."
    )
    return PolicyRefused(message, details=details)


def _back_in_s(verdict: Verdict) -> float:
    """When the first of the targets that are down is likely back."""
    down = [exclusion for exclusion in verdict.excluded.values() if exclusion.kind is ExclusionKind.DOWN]
    return min(_RETRY_AFTER_S if each.back_in_s is None else each.back_in_s for each in down)


def _so_near(verdict: Verdict, kind: ExclusionKind) -> str:
    """Name the targets that only one thing keeps from answering, why there are no others, and what that thing is."""
    near = [name for name, exclusion in verdict.excluded.items() if exclusion.kind is kind]
    reasons = _each(verdict, near)
    if len(near) == len(verdict.excluded):
        return f"No target can answer this request: {reasons}"
    if any(exclusion.kind in _BY_POLICY for exclusion in verdict.excluded.values()):
        return f"This request is labelled {_labelled(verdict)}; only {_names(near)} may answer it, and {reasons}"
    return f"Only {_names(near)} can answer this request, and {reasons}"


def _labelled(verdict: Verdict) -> str:
    tags = sorted(verdict.label.tags)
    return verdict.label.level.word + (f" ({', '.join(tags)})" if tags else "")


def _each(verdict: Verdict, names: list[str]) -> str:
    return ", ".join(f"`{name}` {verdict.excluded[name].detail}" for name in names)


def _names(names: list[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
