"""`tidegate policy check`, `test`, `fmt` and `schema`: one policy by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.options import JsonOption, SettingsOption, settings_or_fail
from gateway.cli.policy.common import PolicyArgument, end, policy_or_exit, say_json, unreadable
from gateway.policies.examine import unmentioned_targets, unreachable_targets
from routing_policies.lab.lints import lint
from routing_policies.lab.prover import Prover
from routing_policies.policy.errors import PolicyError
from routing_policies.policy.layout import formatted
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.policy.schema import document_schema
from routing_policies.policy.self_test import run_tests


def check(
    source: PolicyArgument = None,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings fail the check, too.")] = False,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Load a policy as a start would: its form, its invariants, its own tests. Warn of rules that cannot matter.

    With --settings its targets are held against those that the settings say how to reach.
    """
    loaded = policy_or_exit(source, settings_file)
    targets = None if settings_file is None else frozenset(settings_or_fail(settings_file).targets)
    unreachable = () if targets is None else unreachable_targets(loaded, targets)
    errors = [*_unproved(loaded), *_failing(loaded), *unreachable]
    warnings = [*lint(loaded), *_unmentioned(loaded, targets)]
    if as_json:
        say_json(
            {
                "policy": loaded.policy.name,
                "digest": loaded.digest,
                "errors": list(map(_as_json, errors)),
                "warnings": list(map(_as_json, warnings)),
            }
        )
    else:
        for error in errors:
            typer.secho(str(error), fg=typer.colors.RED)
        for warning in warnings:
            typer.secho(f"{warning.file}:{warning.line}:{warning.column}: warning: {warning.message}")
        if not errors:
            typer.echo(f"{loaded.policy.name}: good ({loaded.digest[:12]})")
    end(found=bool(errors or (strict and warnings)))


def _unproved(loaded: LoadedPolicy) -> list[PolicyError]:
    return [
        loaded.source.error(("invariants", index), f"the invariant `{finding.invariant}` {finding.in_words()}")
        for index, finding in enumerate(Prover().prove(loaded).findings)
        if not finding.holds
    ]


def _failing(loaded: LoadedPolicy) -> list[PolicyError]:
    at = {test.name: index for index, test in enumerate(loaded.policy.tests)}
    return [
        loaded.source.error(("tests", at[failure.test]), f"test `{failure.test}` fails: {failure.message}")
        for failure in run_tests(loaded).failures
    ]


def _unmentioned(loaded: LoadedPolicy, targets: frozenset[str] | None) -> Iterator[PolicyError]:
    for message in () if targets is None else unmentioned_targets(loaded, targets):
        yield loaded.source.error(("targets",), message, at_key=True)


def _as_json(error: PolicyError) -> dict[str, str | int]:
    return {"file": error.file, "line": error.line, "column": error.column, "message": error.message}


def run_own_tests(
    source: PolicyArgument = None,
    coverage_min: Annotated[
        float, typer.Option("--coverage-min", min=0, max=100, help="Least percentage of rules that tests must touch.")
    ] = 0.0,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Run the tests that stand in a policy, and tell which rules none of them touches."""
    loaded = policy_or_exit(source, settings_file)
    report = run_tests(loaded)
    errors = _failing(loaded)
    percent = 100.0 * report.coverage
    if as_json:
        say_json(
            {
                "tests": report.tests,
                "failures": list(map(_as_json, errors)),
                "coverage": report.coverage,
                "untouched": report.untouched,
            }
        )
    else:
        for error in errors:
            typer.secho(str(error), fg=typer.colors.RED)
        failed = len({failure.test for failure in report.failures})
        typer.echo(f"{report.tests - failed} of {report.tests} tests pass; they touch {percent:.0f} % of the rules")
        for rule in report.untouched:
            typer.echo(f"no test touches `{rule}`")
    end(found=bool(errors) or percent < coverage_min)


def fmt(
    file: Annotated[Path, typer.Argument(help="A policy file.", metavar="FILE")],
    check_only: Annotated[bool, typer.Option("--check", help="Change nothing; fail where it would.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Lay a policy file out in the one way. Comments stay; what cannot be kept is refused."""
    try:
        text = file.read_bytes().decode("utf-8")
        found = formatted(text, str(file))
    except OSError as exc:
        unreadable(f"{file}: cannot be read: {exc.strerror}")
    except UnicodeDecodeError:
        unreadable(f"{file}: not UTF-8")
    except PolicyError as exc:
        unreadable(str(exc))
    changed = found != text
    if changed and not check_only:
        file.write_bytes(found.encode("utf-8"))
    if as_json:
        say_json({"file": str(file), "changed": changed})
    elif changed:
        typer.echo(f"{file}: {'would be formatted' if check_only else 'formatted'}")
    end(found=changed and check_only)


def schema() -> None:
    """Print the JSON Schema of the policy document."""
    say_json(document_schema())
