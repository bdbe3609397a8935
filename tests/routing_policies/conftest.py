"""Factories of requests, targets' states and policies, with defaults that a test overrides where it matters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace

import pytest

from inference_protocol.request import Needs, Task
from inference_protocol.text_parts import UninspectableCause
from routing_policies.policy.loader import LoadedPolicy, load_text, read_text
from routing_policies.signals.deadline import Deadline
from routing_policies.signals.label import Component, DataClass, Label
from routing_policies.signals.size import Size, TokenInterval
from routing_policies.snapshot import Capabilities, Health, Prediction, Snapshot, TargetSnapshot
from routing_policies.view import RequestView, Tenant

NOW = 1000.0

TWO_TARGETS = """\
apiVersion: tidegate/v1
name: two
targets:
  edge:  {kind: edge, clearance: restricted, quality: 0.6}
  cloud: {kind: cloud, clearance: internal, quality: 1.0, tags_allowed: []}
"""


def _view(
    level: DataClass = DataClass.PUBLIC,
    tags: Iterable[str] = (),
    *,
    tokens: int | TokenInterval = 100,
    total_ms: float | None = None,
    ttft_ms: float | None = None,
    needs: Needs | None = None,
    output_cap: int = 100,
    tenant: Tenant | None = None,
    causes: Iterable[UninspectableCause] = (),
) -> RequestView:
    return RequestView(
        task=Task.CHAT,
        model="small",
        stream=True,
        needs=needs or Needs(),
        label=Label(DataClass.PUBLIC, declared=Component(level, frozenset(tags)), causes=frozenset(causes)),
        deadline=Deadline(
            NOW,
            None if total_ms is None else NOW + total_ms / 1000.0,
            None if ttft_ms is None else NOW + ttft_ms / 1000.0,
        ),
        size=Size(tokens if isinstance(tokens, TokenInterval) else TokenInterval(tokens, tokens, tokens), 400),
        output_cap=output_cap,
        tenant=tenant or Tenant("local"),
    )


def _prediction(
    total_ms: float, ttft_ms: float | None = None, spread: float = 0.3, output_tokens: float = 50.0
) -> Prediction:
    ttft = total_ms if ttft_ms is None else ttft_ms
    return Prediction(ttft, total_ms, spread, spread, output_tokens, (ttft, total_ms))


def _target(
    name: str,
    health: Health = Health.UP,
    prediction: Prediction | None = None,
    window: int | None = 8192,
    **capabilities: object,
) -> TargetSnapshot:
    can = {"served_model": "small", "tools": True, "json_schema": True, "logprobs": True, **capabilities}
    return TargetSnapshot(name, health, Capabilities(window=window, **can), prediction=prediction)


def _snapshot(*targets: TargetSnapshot, seed: int = 0) -> Snapshot:
    found: Mapping[str, TargetSnapshot] = {target.name: target for target in targets}
    return Snapshot(found or {name: _target(name) for name in ("edge", "cloud")}, now=NOW, seed=seed)


def _policy(more: str = "", *, base: str = TWO_TARGETS) -> LoadedPolicy:
    return load_text(base + more, "test.yaml")


def _unproved(more: str = "", *, base: str = TWO_TARGETS) -> LoadedPolicy:
    return read_text(base + more, "test.yaml")


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """`make.view(...)`, `make.target(...)`, `make.snapshot(...)`, `make.prediction(...)`, `make.policy(yaml)`."""
    factories: dict[str, Callable[..., object]] = {
        "view": _view,
        "target": _target,
        "snapshot": _snapshot,
        "prediction": _prediction,
        "policy": _policy,
        "unproved": _unproved,
    }
    return SimpleNamespace(**factories)
