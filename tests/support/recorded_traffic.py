"""Decision records of made-up traffic, the same for the same seed, written as the gateway writes them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
from opentelemetry.trace import NonRecordingSpan, SpanContext

from gateway.exchange import Decided, Exchange
from gateway.principal import LOCAL
from gateway.records.builders import decision_record
from inference_protocol.request import InferenceRequest, Needs, Task
from routing_policies.decide import decide
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.signals.deadline import Deadline
from routing_policies.signals.hints import Hints, Network
from routing_policies.signals.label import NOTHING, Component, DataClass, Finding, ScanResult, label_of
from routing_policies.signals.size import Size, TokenInterval
from routing_policies.snapshot import Capabilities, Connectivity, Device, Health, Prediction, Snapshot, TargetSnapshot
from routing_policies.view import RequestView, Tenant

_SPAN = NonRecordingSpan(SpanContext(1, 1, is_remote=False))
_REQUEST = InferenceRequest(Task.CHAT, "small", raw=b"{}", tree={})


def recorded_traffic(policy: LoadedPolicy, count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Yield `count` decision records, as they are read back."""
    chance, device = random.Random(seed), random.Random(seed)
    for index in range(count):
        view, snapshot = _view(policy, chance), _snapshot(policy, chance)
        view, snapshot = _with_hints(view, device), _with_state(snapshot, device)
        exchange = Exchange(
            request_id=f"req-{index}",
            client_request_id=None,
            route="/v1/chat/completions",
            received_at=0.0,
            received_wall_s=1_700_000_000.0 + index,
            span=_SPAN,
            clock=lambda: 0.0,
            principal=LOCAL,
            decision=Decided(_REQUEST, view, policy, snapshot, decide(policy, view, snapshot)),
        )
        yield orjson.loads(orjson.dumps(decision_record(exchange)))


def recorded_lines(policy: LoadedPolicy, count: int, seed: int = 1) -> Iterator[bytes]:
    """Yield the same records as the lines that they are on the disk."""
    return map(orjson.dumps, recorded_traffic(policy, count, seed))


def _view(policy: LoadedPolicy, chance: random.Random) -> RequestView:
    found = chance.choices([(), ("pii",), ("phi",), ("secret",)], (85, 9, 4, 2))[0]
    declared = chance.choices([None, DataClass.INTERNAL, DataClass.CONFIDENTIAL], (80, 14, 6))[0]
    tokens = int(chance.lognormvariate(5.5, 1.2)) + 10
    cap = chance.choice([64, 256, policy.policy.defaults.max_tokens])
    total_ms = chance.choices([None, 2000.0, 6000.0], (50, 25, 25))[0]
    scan = ScanResult(tuple(Finding("made up", tag, "", 0, 0, "made up") for tag in found))
    return RequestView(
        task=Task.CHAT,
        model="small",
        stream=chance.random() < 0.7,
        needs=Needs(tools=chance.random() < 0.1),
        label=label_of(policy.label_rules, declared=Component(declared), key=NOTHING, taint=NOTHING, scan=scan),
        deadline=Deadline(0.0, None if total_ms is None else total_ms / 1000.0),
        size=Size(TokenInterval(tokens // 3, tokens, tokens * 3), tokens * 5, {"text": 1}),
        output_cap=cap,
        cap_is_own=cap != policy.policy.defaults.max_tokens,
        tenant=Tenant("local", frozenset({"inference"}), chance.choices(["", "eu"], (70, 30))[0]),
    )


def _snapshot(policy: LoadedPolicy, chance: random.Random) -> Snapshot:
    targets = {}
    for name, promise in policy.policy.targets.items():
        first_ms = chance.lognormvariate(6.0 if promise.on_device else 6.4, 0.4)
        total_ms = first_ms + chance.lognormvariate(7.2 if promise.on_device else 6.6, 0.5)
        prediction = Prediction(first_ms, total_ms, 0.3, 0.4, 60.0, (first_ms, total_ms))
        window = 2048 if promise.on_device else 32_768
        can = Capabilities("small", window=window, tools=True, json_schema=True)
        health = Health.DOWN if chance.random() < 0.01 else Health.UP
        targets[name] = TargetSnapshot(name, health, can, prediction=prediction)
    return Snapshot(targets, now=0.0009765625)


def _with_hints(view: RequestView, chance: random.Random) -> RequestView:
    if chance.random() < 0.7:
        return view
    metered, battery = chance.random() < 0.5, chance.choice([None, 8.0, 60.0])
    return replace(view, hints=Hints(metered=metered, network=Network.CELLULAR, battery_percent=battery))


def _with_state(snapshot: Snapshot, chance: random.Random) -> Snapshot:
    waiting = chance.choices([0, 3, 12], (80, 15, 5))[0]
    targets = {name: replace(target, waiting=waiting) for name, target in snapshot.targets.items()}
    connectivity = chance.choices(list(Connectivity), (80, 5, 5, 2, 5, 3))[0]
    return replace(snapshot, targets=targets, device=Device(connectivity, chance.uniform(200, 4000)))
