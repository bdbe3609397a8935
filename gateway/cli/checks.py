"""What is checked before anything starts, and by `tidegate policy check`: each ends the command with what is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from gateway.cli.options import fail
from gateway.settings import Settings
from routing_policies.policy.errors import PolicyError, choice
from routing_policies.policy.loader import LoadedPolicy, builtin_names, load_policy
from routing_policies.policy.self_test import failing_tests


def named_policy(name: str) -> LoadedPolicy:
    """Load a built-in policy or a policy file, and run its own tests."""
    path = Path(name)
    if name not in builtin_names() and not path.exists():
        fail(f"policy `{name}`: there is no such file and no such built-in policy{choice(name, builtin_names())}")
    try:
        loaded = load_policy(name if name in builtin_names() else path)
    except PolicyError as exc:
        fail(str(exc))
    failures = failing_tests(loaded)
    if failures:
        fail("\n".join(f"{loaded.origin}: test `{failure.test}` fails: {failure.message}" for failure in failures))
    return loaded


def policy_in_force(settings: Settings) -> LoadedPolicy:
    """Load the policy that the settings name, and check that the two join."""
    loaded = named_policy(settings.policy)
    unreachable = [name for name in loaded.policy.targets if name not in settings.targets]
    if unreachable:
        fail(
            f"{loaded.origin}: the policy names {', '.join(unreachable)}, and no settings say how to reach that. "
            f"Settings have: {', '.join(settings.targets)}."
        )
    for name in settings.targets.keys() - loaded.policy.targets.keys():
        hint = choice(name, loaded.policy.targets)
        typer.secho(f"The policy says nothing of the target `{name}`, so nothing is sent there{hint}.", err=True)
    return loaded


def refuse_missing_credentials(settings: Settings) -> None:
    """End the command if a target's credential cannot be read."""
    for name, target in settings.targets.items():
        try:
            target.credential_headers()
        except ValueError as exc:
            fail(f"targets.{name}.credential: {exc}.")


def prepare_state_folder(settings: Settings) -> None:
    """Make the folders that are written to, for this user alone, or end the command with the one that cannot be."""
    folder = settings.folder
    for path in (settings.state_dir, folder.records, folder.traces):
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            fail(f"state_dir: {path} cannot be made: {exc.strerror}. Set another `state_dir`, or mend that one.")
        if not os.access(path, os.W_OK | os.X_OK):
            fail(f"state_dir: {path} cannot be written to. Set another `state_dir`, or mend that one.")
