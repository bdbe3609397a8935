"""The digest of a decision's inputs: equal digests mean equal verdicts, in any process and on any machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from routing_policies.budget import Budget
from routing_policies.signals.label import Component, Label
from routing_policies.snapshot import Snapshot, TargetSnapshot
from routing_policies.view import RequestView


def digest_inputs(policy_digest: str, view: RequestView, snapshot: Snapshot) -> str:
    """Hash everything that a verdict depends on: blake2b-128 over plain values in a fixed order, as JSON.

    Sets are sorted, since their order differs between processes. Times count as what is left of them. The name of a
    model may hold what JSON cannot, such as half of a surrogate pair.
    """
    budget = Budget.left(view.deadline, snapshot.now)
    needs, size, tenant, hints = view.needs, view.size, view.tenant, view.hints
    values = (
        policy_digest,
        (view.task.value, ascii(view.model), view.stream, view.output_cap, view.cap_is_own),
        (needs.tools, needs.schema, needs.images, needs.audio, needs.logprobs, needs.n, needs.parameters),
        _label(view.label),
        (budget.total_ms, budget.first_content_ms),
        (size.tokens.least, size.tokens.likely, size.tokens.most, size.body_bytes, _pairs(size.parts)),
        (tenant.id, tenant.residency, sorted(tenant.roles)),
        [_target(target) for target in snapshot.targets.values()],
        snapshot.seed,
        (hints.save_data, hints.network.value, hints.metered, hints.effective_type.value),
        (hints.battery_percent, hints.charging, hints.unreadable),
        (snapshot.device.connectivity.value, snapshot.device.free_memory_mb),
    )
    return hashlib.blake2b(orjson.dumps(values), digest_size=16).hexdigest()


def _label(label: Label) -> tuple[Any, ...]:
    return (
        int(label.default),
        [_component(component) for component in label.components],
        _pairs(label.counts),
        _words(label.causes),
        _words(label.fixed),
    )


def _component(component: Component) -> tuple[int | None, list[str]]:
    return (None if component.level is None else int(component.level), sorted(component.tags))


def _target(target: TargetSnapshot) -> tuple[Any, ...]:
    can, prediction = target.capabilities, target.prediction
    return (
        target.name,
        (target.health.value, target.back_in_s, target.waiting),
        (can.served_model, can.window, can.tools, can.json_schema, can.images, can.audio, can.logprobs, can.max_n),
        sorted(can.parameters),
        _words(can.tasks),
        prediction
        and (
            prediction.ttft_ms,
            prediction.total_ms,
            prediction.ttft_spread,
            prediction.total_spread,
            prediction.output_tokens,
        ),
    )


def _pairs(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items())


def _words(words: Iterable[str]) -> list[str]:
    return sorted(str(word) for word in words)
