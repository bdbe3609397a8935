"""What a policy on trial costs."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.policies.holder import Canary, Shadow, StickyBy, Version
from gateway.policies.shadow import Asked, ShadowDesk
from inference_protocol.request import Needs, Task
from routing_policies.decide import decide
from routing_policies.policy.loader import load_policy
from routing_policies.signals.deadline import Deadline
from routing_policies.signals.label import Label
from routing_policies.signals.size import Size, TokenInterval
from routing_policies.snapshot import Capabilities, Health, Snapshot, TargetSnapshot
from routing_policies.view import RequestView


def test_a_shadow_rests_nine_times_as_long_as_it_was_asked() -> None:
    policy = load_policy("balanced")
    view = RequestView(
        Task.CHAT, "m", False, Needs(), Label(policy.label_rules.default), Deadline(0.0),
        Size(TokenInterval(5, 5, 5), 20), 16,
    )  # fmt: skip
    targets = {name: TargetSnapshot(name, Health.UP, Capabilities("m")) for name in policy.policy.targets}
    snapshot = Snapshot(targets, now=0.0)
    verdict = decide(policy, view, snapshot)
    times: Iterator[float] = iter([10.0, 10.5, 14.9, 15.0, 15.25])
    desk = ShadowDesk(lambda: next(times))
    asked = Asked(Version(1, "", policy), lambda: view)

    assert desk.ask(asked, snapshot, verdict) is not None, "it takes half a second"
    assert desk.ask(asked, snapshot, verdict) is None, "less than four and a half later"
    assert desk.ask(asked, snapshot, verdict) is not None


def test_a_canary_and_a_sampled_shadow_draw_independently_from_one_seed() -> None:
    version = Version(1, "", load_policy("balanced"))
    canary, shadow = Canary(version, 50, StickyBy.TENANT), Shadow(version, 50)
    seeds = range(0, 10_000 * 10_000, 1_234_567)

    both = sum(canary.draws(seed) and shadow.draws(seed) for seed in seeds)

    assert 0.15 < both / len(seeds) < 0.35
    assert Canary(version, 100).draws(9_999)
    assert not Canary(version, 0.01).draws(1)
