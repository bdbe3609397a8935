"""`tidegate policy prove`: whether each invariant holds for every request, or the smallest one that breaks it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.cli.options import JsonOption, SettingsOption
from gateway.cli.policy.common import PolicyArgument, end, policy_or_exit, say_json, unreadable
from routing_policies.lab.prover import Finding, Prover
from routing_policies.lab.search import MAX_CELLS
from routing_policies.policy.loader import LoadedPolicy


def prove(
    source: PolicyArgument = None,
    z3: Annotated[bool, typer.Option("--z3", help="Ask an SMT solver, too (needs the extra `prove`).")] = False,
    max_cells: Annotated[
        int, typer.Option("--max-cells", min=1, help="Abstract requests to look at, for each invariant and target.")
    ] = MAX_CELLS,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the first counterexample there, for `policy explain`.")
    ] = None,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Prove the invariants of a policy."""
    loaded = policy_or_exit(source, settings_file)
    findings = Prover(max_cells).prove(loaded).findings
    second = _second_opinion(loaded) if z3 else {}
    if as_json:
        say_json({"policy": loaded.policy.name, "invariants": [_as_json(loaded, each, second) for each in findings]})
    else:
        for finding in findings:
            typer.echo(f"{finding.invariant}: {finding.in_words()}{_said(second, finding)}")
            if finding.counterexample is not None:
                typer.echo(json.dumps(finding.counterexample.sent(loaded), indent=2))
        if not findings:
            typer.echo(f"{loaded.policy.name}: no invariants, so nothing to prove")
    broken = [finding.counterexample for finding in findings if finding.counterexample is not None]
    if save is not None and broken:
        save.write_text(json.dumps(broken[0].sent(loaded), indent=2) + "\n", encoding="utf-8")
    disagrees = any(second.get(each.invariant) not in {None, each.holds} for each in findings)
    end(found=disagrees or not all(finding.holds for finding in findings))


def _second_opinion(loaded: LoadedPolicy) -> dict[str, bool | None]:
    try:
        from routing_policies.lab import z3_prover  # noqa: PLC0415  # a large library of an optional extra
    except ImportError:
        unreadable("--z3 needs the extra `prove`: pip install 'tidegate[prove]'")
    return {invariant.id: z3_prover.holds(loaded, invariant.id) for invariant in loaded.policy.invariants}


def _said(second: dict[str, bool | None], finding: Finding) -> str:
    if finding.invariant not in second:
        return ""
    said = second[finding.invariant]
    if said is None:
        return "; z3 cannot tell"
    return "; z3 agrees" if said is finding.holds else f"; z3 says that it {'holds' if said else 'does not hold'}"


def _as_json(loaded: LoadedPolicy, finding: Finding, second: dict[str, bool | None]) -> dict[str, Any]:
    found = finding.counterexample
    return {
        "id": finding.invariant,
        "holds": finding.holds,
        "cells": finding.cells,
        "why_open": finding.why_open,
        "counterexample": None if found is None else {"target": found.target, "request": found.sent(loaded)},
        **({"z3": second[finding.invariant]} if finding.invariant in second else {}),
    }
