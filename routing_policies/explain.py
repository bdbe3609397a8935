"""A verdict for a person and for `POST /v1/route/explain`: everything that led to it, and not a word of the request."""

from __future__ import annotations

from typing import Any

from routing_policies.budget import Budget
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.signals.hints import Hints
from routing_policies.signals.label import Label
from routing_policies.signals.size import Size
from routing_policies.snapshot import Prediction, Snapshot
from routing_policies.verdict import Reason, Scores, Terms, Verdict
from routing_policies.view import RequestView


def explain(verdict: Verdict, view: RequestView, snapshot: Snapshot, policy: LoadedPolicy) -> dict[str, Any]:
    """Return the explanation as plain JSON values. Counts of findings stand in it, the findings themselves never."""
    budget = Budget.left(view.deadline, snapshot.now)
    names = [*(eligible.target for eligible in verdict.eligible), *verdict.excluded]
    return {
        "target": verdict.eligible[0].target if verdict.eligible else None,
        "order": [eligible.target for eligible in verdict.eligible],
        "reason": verdict.reason,
        "because": in_words(verdict),
        "label": _label(view.label),
        "deadline": {"total_ms": budget.total_ms, "ttft_ms": budget.first_content_ms},
        "size": _size(view.size, view.output_cap),
        "scores": _scores(verdict.scores),
        "weights": dict(verdict.weights),
        "client": _hints(view.hints),
        "device": {
            "connectivity": snapshot.device.connectivity.value,
            "free_memory_mb": snapshot.device.free_memory_mb,
        },
        "targets": {name: _target(name, verdict, snapshot) for name in names},
        "rules": list(verdict.rules),
        "notes": list(verdict.notes),
        "policy": {"name": policy.policy.name, "digest": policy.digest},
        "digest": verdict.digest,
    }


def in_words(verdict: Verdict) -> str:
    """Say in one sentence why the first target is the first, or why there is none."""
    if not verdict.eligible:
        return f"No target may answer: {_exclusions(verdict)}."
    first = verdict.eligible[0].target
    others = [eligible.target for eligible in verdict.eligible[1:]]
    rated = ", ".join(f"{verdict.terms[name].score:.3f} for `{name}`" for name in others)
    score = f"{verdict.terms[first].score:.3f}"
    reason, _, rule = verdict.reason.partition(":")
    sentence = {
        Reason.ONLY_ELIGIBLE: f"`{first}` is the only target that may answer",
        Reason.HIGHEST_SCORE: f"`{first}` has the highest score, {score} against {rated}",
        Reason.DECLARED_ORDER: f"`{first}` scores {score} as another does, and the policy names it first",
        Reason.PREFERRED: f"the rule {rule} lifts `{first}` to the top, {score} against {rated}",
        Reason.BUDGET_UNLIKELY: f"no target is likely to answer inside the budget, and `{first}` is the likeliest with "
        f"a probability of {verdict.terms[first].deadline:.2f}",
    }[Reason(reason)]
    return f"{sentence[0].upper()}{sentence[1:]}{'; ' + _exclusions(verdict) if verdict.excluded else ''}."


def _exclusions(verdict: Verdict) -> str:
    return ", ".join(f"`{name}` {exclusion.detail}" for name, exclusion in verdict.excluded.items())


def _label(label: Label) -> dict[str, Any]:
    components = {
        "declared": label.declared,
        "key": label.key,
        "taint": label.taint,
        "findings": label.findings,
        "uninspected": label.uninspected,
    }
    return {
        "class": label.level.word,
        "tags": sorted(label.tags),
        "default": label.default.word,
        "components": {
            name: {"class": None if part.level is None else part.level.word, "tags": sorted(part.tags)}
            for name, part in components.items()
        },
        "counts": dict(sorted(label.counts.items())),
        "uninspected_causes": sorted(cause.value for cause in label.causes),
    }


def _size(size: Size, output_cap: int) -> dict[str, Any]:
    tokens = size.tokens
    return {
        "tokens": {"least": tokens.least, "likely": tokens.likely, "most": tokens.most},
        "output_cap": output_cap,
        "body_bytes": size.body_bytes,
        "parts": dict(size.parts),
    }


def _hints(hints: Hints) -> dict[str, Any]:
    return {
        "save_data": hints.save_data,
        "network": hints.network.value,
        "metered": hints.metered,
        "effective_type": hints.effective_type.value,
        "battery_percent": hints.battery_percent,
        "charging": hints.charging,
        "unreadable": list(hints.unreadable),
    }


def _scores(scores: Scores) -> dict[str, Any]:
    return {
        "latency": scores.latency,
        "privacy": scores.privacy,
        "size": scores.size,
        "missing": list(scores.missing),
    }


def _target(name: str, verdict: Verdict, snapshot: Snapshot) -> dict[str, Any]:
    found = snapshot.targets.get(name)
    facts: dict[str, Any] = {
        "eligible": name in verdict.terms,
        "health": None if found is None else found.health.value,
        "window": None if found is None else found.capabilities.window,
        "waiting": None if found is None else found.waiting,
        "prediction": None if found is None else _prediction(found.prediction),
    }
    if name in verdict.excluded:
        exclusion = verdict.excluded[name]
        facts["excluded"] = {"kind": exclusion.kind.value, "rule": exclusion.rule, "detail": exclusion.detail}
    else:
        facts["transform"] = next(e.transform.value for e in verdict.eligible if e.target == name)
        facts |= _terms(verdict.terms[name])
    return facts


def _terms(terms: Terms) -> dict[str, Any]:
    return {
        "terms": {
            "deadline": terms.deadline,
            "exposure": terms.exposure,
            "fit": terms.fit,
            "cost": terms.cost,
            "energy": terms.energy,
            "quality": terms.quality,
        },
        "missing": list(terms.missing),
        "preferred": terms.preferred,
        "score": terms.score,
    }


def _prediction(prediction: Prediction | None) -> dict[str, float] | None:
    if prediction is None:
        return None
    return {
        "ttft_ms": round(prediction.ttft_ms, 1),
        "total_ms": round(prediction.total_ms, 1),
        "ttft_spread": round(prediction.ttft_spread, 3),
        "total_spread": round(prediction.total_spread, 3),
        "output_tokens": round(prediction.output_tokens, 1),
    }
