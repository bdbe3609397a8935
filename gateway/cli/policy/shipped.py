"""`tidegate policy list` and `show`: the policies that come with Tidegate, to use or to begin one's own from."""

from __future__ import annotations

import itertools
from typing import Annotated

import typer

from gateway.cli.options import JsonOption
from gateway.cli.policy.common import policy_or_exit, say_json, unreadable
from routing_policies.policy.errors import choice
from routing_policies.policy.loader import LoadedPolicy, builtin_names, read_policy


def list_shipped(as_json: JsonOption = False) -> None:
    """List the policies that come with Tidegate, and what each is for."""
    found = {name: _purpose(read_policy(name)) for name in builtin_names()}
    if as_json:
        say_json([{"name": name, "purpose": purpose} for name, purpose in found.items()])
        return
    width = max(map(len, found)) + 2
    for name, purpose in found.items():
        typer.echo(f"{name:{width}}{purpose}")


def show(name: Annotated[str, typer.Argument(help="The name of one of them.", metavar="NAME")]) -> None:
    """Print a policy that comes with Tidegate, as its file stands: `tidegate policy show healthcare > site.yaml`."""
    if name not in builtin_names():
        unreadable(f"there is no built-in policy `{name}`{choice(name, builtin_names())}")
    typer.echo(policy_or_exit(name).source.text, nl=False)


def _purpose(policy: LoadedPolicy) -> str:
    """The first sentence of the comment that its file begins with."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), policy.source.text.splitlines())
    comment = " ".join(line.removeprefix("#").strip() for line in lines)
    return f"{comment.partition('. ')[0].rstrip('.')}."
