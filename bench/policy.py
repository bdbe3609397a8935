"""What deciding costs, and what looking at a policy costs: proofs, warnings and replays.

Seconds are those of the processor, so that other programs on the machine do not count.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from bench.parts.report import Report
from routing_policies.decide import decide
from routing_policies.lab.lints import lint
from routing_policies.lab.prover import Prover
from routing_policies.lab.replay import Replayer
from routing_policies.lab.simulate import simulate
from routing_policies.policy.loader import LoadedPolicy, builtin_names, load_policy, load_text, read_policy, read_text
from tests.support.recorded_traffic import recorded_lines

ROUNDS = 7
DECISIONS = 400
RECORDS = 40_000
OPEN = """\
apiVersion: tidegate/v1
name: open
targets:
  edge: {kind: edge, clearance: restricted, quality: 0.6, price: {input: 0, output: 0}}
  cloud:
    kind: cloud
    clearance: restricted
    tags_allowed: [pii, phi, pci, secret]
    quality: 1.0
    price: {input: 0.10, output: 0.40}
"""
SOFT = (
    'client.save_data || client.metered || device.connectivity == "metered"',
    "target.waiting > 4 || client.battery_percent < 20 && !client.charging",
)


def policy_with(targets: int, rules: int = 20, invariants: int = 0) -> LoadedPolicy:
    """A policy with so many targets and rules: half of them hard, half soft, of which two read hints and queues."""
    lines = ["apiVersion: tidegate/v1", f"name: targets-{targets}", "defaults: {class: public}", "targets:"]
    lines.append("  edge: {kind: edge, clearance: restricted, quality: 0.6, price: {input: 0, output: 0}}")
    for index in range(1, targets):
        about = f"clearance: internal, region: {'eu' if index % 2 else 'us'}-{index}, quality: 0.{index}"
        lines.append(f"  far{index}: {{kind: cloud, {about}, price: {{input: 0.{index}, output: 0.{index}}}}}")
    conditions = (
        '"phi" in label.tags || "pii" in label.tags',
        'tenant.residency == "eu" && request.tools',
        "size.tokens > {at}",
        "deadline.total_ms < {at} && label.level >= INTERNAL",
        'tenant.roles.exists(r, r == "guest-{at}")',
    )
    wheres = [conditions[index % len(conditions)].replace("{at}", str(200 * (index + 1))) for index in range(rules)]
    hard, soft = wheres[: rules // 2], [*wheres[rules // 2 : -2], *SOFT]
    lines.append("constraints:")
    require = 'target.kind == "edge" || target.region.startsWith("eu")'
    lines += [f"  - {{id: c{i}, when: '{when}', require: '{require}'}}" for i, when in enumerate(hard)]
    lines.append("prefer:")
    lines += [f"  - {{id: p{i}, when: '{when}', target: edge, weight: 0.01}}" for i, when in enumerate(soft)]
    if invariants:
        lines.append("invariants:")
        shape = "{{id: i{0}, when: '{1} && label.level >= CONFIDENTIAL', require: 'target.kind == \"edge\"'}}"
        lines += [f"  - {shape.format(i, f'({when})')}" for i, when in enumerate(wheres[:invariants])]
    return read_text("\n".join(lines), f"bench-{targets}")


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds of one run."""
    started = time.process_time()
    work()
    return time.process_time() - started


def quickest(work: Callable[[], object]) -> float:
    return min(seconds(work) for _ in range(ROUNDS))


def decisions(report: Report) -> None:
    for targets, budget_us in ((2, 150.0), (8, 400.0)):
        policy = policy_with(targets)
        replayer = Replayer(policy)
        inputs = [replayer.replay(line) for line in recorded_lines(policy, DECISIONS)]

        def run(policy: LoadedPolicy = policy, inputs: list = inputs) -> None:
            for each in inputs:
                decide(policy, each.view, each.snapshot)

        rounds = [seconds(run) / DECISIONS * 1e6 for _ in range(ROUNDS)]
        report.raw[f"decision_us_{targets}_targets"] = rounds
        what = f"decision, 20 rules of which 2 read hints and queues, {targets} targets"
        report.at_most(what, statistics.median(rounds), budget_us, "µs")


def looking(report: Report) -> None:
    shipped = [read_policy(name) for name in builtin_names()]
    for policy in shipped:
        report.raw[f"proof_ms_{policy.policy.name}"] = quickest(lambda policy=policy: Prover().prove(policy)) * 1000
    proving = quickest(lambda: [Prover().prove(policy) for policy in shipped])
    report.at_most(f"proof of the {len(shipped)} shipped policies", proving, 2.0, "s")
    large = policy_with(8, rules=20, invariants=20)
    proof = Prover().prove(large)
    report.raw["large_proof_cells"] = [finding.cells for finding in proof.findings]
    assert proof.holds
    report.at_most("proof of 20 invariants, 20 rules, 8 targets", quickest(lambda: Prover().prove(large)), 2.0, "s")
    kept = Prover()
    load_policy("balanced", kept)
    text = read_policy("balanced").source.text
    report.raw["load_ms"] = quickest(lambda: load_text(text, "balanced")) * 1000
    report.raw["load_ms_proved_before"] = quickest(lambda: load_text(text, "balanced", kept)) * 1000
    report.raw["warnings_ms"] = quickest(lambda: lint(large)) * 1000


def replays(report: Report) -> None:
    lines = list(recorded_lines(load_policy("balanced"), RECORDS))
    candidate = load_policy("private-first")
    rounds = [RECORDS / seconds(lambda: simulate(candidate, lines)) for _ in range(5)]
    report.raw["replays_per_s"] = rounds
    # Under a stricter one most are refused or have one target left; here every target that is up is scored.
    open_to_all = read_text(OPEN, "bench-open")
    scored = [RECORDS / seconds(lambda: simulate(open_to_all, lines)) for _ in range(5)]
    report.raw["replays_per_s_scored"] = scored
    report.raw["record_bytes"] = sum(map(len, lines)) / RECORDS
    report.at_least("records replayed through a stricter candidate", statistics.median(rounds), 20_000, "1/s")
    report.at_least("records replayed, every target that is up scored", statistics.median(scored), 20_000, "1/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output
    report = Report("policy")
    decisions(report)
    looking(report)
    replays(report)
    report.write(output)


if __name__ == "__main__":
    main()
