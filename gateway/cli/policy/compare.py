"""`tidegate policy diff` and `simulate`: what another policy would change, in all requests and in those recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.cli.options import JsonOption, SettingsOption
from gateway.cli.policy.common import RecordsOption, end, policy_or_exit, records_or_exit, say_json, unreadable
from routing_policies.lab.abstract_request import AbstractRequest
from routing_policies.lab.bootstrap import Estimate
from routing_policies.lab.diff import Change, Direction, Traffic, compare, weigh
from routing_policies.lab.domain import TooManyCells
from routing_policies.lab.first_asked import Move, compare_first
from routing_policies.lab.handling import HandlingChange, compare_handling
from routing_policies.lab.simulate import NOBODY, Simulation
from routing_policies.lab.simulate import simulate as replay
from routing_policies.policy.loader import LoadedPolicy


def diff(
    before: Annotated[str, typer.Argument(help="A policy file or a built-in name.")],
    after: Annotated[str, typer.Argument(help="The one to compare with it.")],
    records: RecordsOption = None,
    fail_on_looser: Annotated[
        bool, typer.Option("--fail-on-looser", help="Fail where the second one is looser in anything.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show who may answer what, and who is asked first, under one policy only: looser and stricter apart.

    Each change comes with the smallest request that shows it.
    """
    old, new = policy_or_exit(before), policy_or_exit(after)
    try:
        found = _Difference(compare_handling(old, new), compare(old, new), compare_first(old, new))
    except TooManyCells as exc:
        unreadable(f"not compared: too many cells ({exc}); fewer or simpler conditions need fewer")
    traffic = None if records is None else weigh(old, new, records_or_exit(records))
    if as_json:
        say_json(_diff_as_json(new, found, traffic))
    else:
        _say_diff(found, traffic)
    end(found=fail_on_looser and found.is_looser)


@dataclass(frozen=True, slots=True)
class _Difference:
    handled: list[HandlingChange]
    changes: list[Change]
    moves: list[Move]

    @property
    def is_looser(self) -> bool:
        directions = {part.direction for parts in (self.handled, self.changes, self.moves) for part in parts}
        return Direction.LOOSER in directions


def _diff_as_json(new: LoadedPolicy, found: _Difference, traffic: Traffic | None) -> dict[str, Any]:
    return {
        "changes": [
            {
                "direction": change.direction,
                "target": change.target,
                "class": change.level.word,
                "example": _sent(new, change.example, change.target),
                "requests": None if traffic is None else _concerned(traffic, change),
            }
            for change in found.changes
        ],
        "asked_first": [
            {
                "direction": move.direction,
                "before": move.before,
                "after": move.after,
                "class": move.level.word,
                "example": _sent(new, move.example, move.after),
                "requests": None if traffic is None else _moved(traffic, move),
            }
            for move in found.moves
        ],
        "handling": [asdict(each) for each in found.handled],
        "traffic": None
        if traffic is None
        else {
            "requests": traffic.requests,
            "moved": traffic.moved,
            "not_identifiable": traffic.unknown,
            "unreadable": traffic.unreadable,
        },
    }


def _sent(new: LoadedPolicy, example: AbstractRequest, target: str | None) -> dict[str, Any]:
    """The example as one would send it; what a target of the new policy replaces is in it as found."""
    known = target if target in new.policy.targets else None
    return example.sent(new.label_rules, example.replaced(new.policy, known))


def _concerned(traffic: Traffic, change: Change) -> int:
    return traffic.concerned.get((change.direction, change.target, change.level), 0)


def _moved(traffic: Traffic, move: Move) -> int:
    return traffic.first.get((move.before, move.after, move.level), 0)


def _say_diff(found: _Difference, traffic: Traffic | None) -> None:
    for each in found.handled:
        typer.echo(f"{each.direction}: {each.in_words()}")
    for change in found.changes:
        may = "may" if change.direction is Direction.LOOSER else "may no longer"
        weight = "" if traffic is None else _share_of(_concerned(traffic, change), traffic)
        typer.echo(f"{change.direction}: {change.target} {may} answer {change.example.in_words()}{weight}")
    for move in found.moves:
        word = "elsewhere" if move.direction is None else move.direction
        first = f"{move.after or 'nobody'} is asked first, and not {move.before or 'anybody'}"
        weight = "" if traffic is None else _share_of(_moved(traffic, move), traffic)
        typer.echo(f"{word}: {first}: {move.example.in_words()}{weight}")
    if traffic is not None:
        typer.echo(f"{traffic.moved} of {traffic.requests} recorded requests would be asked of another target first")
        if traffic.unknown:
            typer.echo(f"{traffic.unknown} cannot be told: the records know nothing of a target that might answer")
        if traffic.unreadable:
            typer.echo(f"{traffic.unreadable} records cannot be read: they are damaged, or of a newer Tidegate")
    elif found.moves:
        typer.echo("who is asked first is told for targets of which nothing is predicted; --records tells how often")
    if not (found.changes or found.handled or found.moves):
        typer.echo("the same targets may answer the same requests, and are asked in the same order")


def _share_of(count: int, traffic: Traffic) -> str:
    return f" [{count} of {traffic.requests} recorded requests]"


def simulate(
    records: Annotated[Path, typer.Option("--records", help="Recorded decisions: a JSON-lines file, or their folder.")],
    policy: Annotated[
        str | None, typer.Option("--policy", help="The candidate: a file or a built-in name; else the settings'.")
    ] = None,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Replay recorded requests through a candidate policy. The records hold no content, and none is needed."""
    candidate = policy_or_exit(policy, settings_file)
    found = replay(candidate, records_or_exit(records))
    if as_json:
        say_json(asdict(found))
    else:
        _say_simulation(found, candidate)
    end(found=not found.replayed)


def _say_simulation(found: Simulation, candidate: LoadedPolicy) -> None:
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("target", "recorded", "candidate", "95 % interval"):
        table.add_column(heading, justify="left" if heading == "target" else "right")
    names = [*candidate.policy.targets, *(found.before.keys() - candidate.policy.targets.keys() - {NOBODY}), NOBODY]
    for name in names:
        table.add_row(name, _share(found.before, name), _share(found.shares, name), _interval(found.shares.get(name)))
    console.print(f"{found.replayed} recorded requests", markup=False)
    console.print(table)
    currency = next((t.price.currency for t in candidate.policy.targets.values() if t.price is not None), "")
    console.print(f"cost of an answer    {_estimate(found.cost, '.3g', currency)}", markup=False)
    console.print(f"inside the budget    {_estimate(found.in_budget, '.1%')}", markup=False)
    changed = f"looser {found.looser}   stricter {found.stricter}   asked of another target first {found.moved}"
    console.print(f"requests             {changed}", markup=False)
    for target, count in found.not_identifiable.items():
        console.print(f"not identifiable     {count}: the records know nothing of {target}", markup=False)
    for what, count in found.assumed.items():
        console.print(f"assumed              {count} records are too old to hold `{what}`", markup=False)
    if found.unreadable:
        console.print(f"left out             {found.unreadable} records cannot be read", markup=False)


def _share(shares: Mapping[str, Estimate], name: str) -> str:
    return f"{shares[name].mean:.1%}" if name in shares else "0.0%"


def _interval(estimate: Estimate | None) -> str:
    return "" if estimate is None else f"{estimate.low:.1%} to {estimate.high:.1%}"


def _estimate(estimate: Estimate | None, form: str, unit: str = "") -> str:
    if estimate is None:
        return "not identifiable: nothing is known of the price or the time"
    mean, low, high = (f"{number:{form}}" for number in (estimate.mean, estimate.low, estimate.high))
    return f"{mean} {unit}".strip() + f"  ({low} to {high}, over {estimate.count} requests)"
