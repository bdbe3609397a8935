"""`tidegate policy`: look at a policy before it is in force, and bring it into force step by step.

Every command ends with status 0 where all is well, 1 where it found something, 2 where it could not read what it was
given.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from gateway.cli.policy.compare import diff, simulate
from gateway.cli.policy.explain import explain
from gateway.cli.policy.inspect import check, fmt, run_own_tests, schema
from gateway.cli.policy.live import activate, reload, rollback, status, versions
from gateway.cli.policy.matrix import matrix
from gateway.cli.policy.prove import prove
from gateway.cli.policy.shipped import list_shipped, show
from gateway.cli.policy.signing import approve, bundle, keygen, sign
from gateway.cli.policy.trials import canary_commands, shadow_commands

app = typer.Typer(help="Look at a policy, and bring it into force step by step.", no_args_is_help=True)
app.command()(check)
app.command("test")(run_own_tests)
app.command("list")(list_shipped)
_LOOKING: tuple[Callable[..., None], ...] = (show, explain, prove, diff, simulate, matrix, schema, fmt)
_CHANGING: tuple[Callable[..., None], ...] = (
    status,
    versions,
    reload,
    activate,
    rollback,
    keygen,
    bundle,
    sign,
    approve,
)
for _command in (*_LOOKING, *_CHANGING):
    app.command()(_command)
app.add_typer(canary_commands(), name="canary")
app.add_typer(shadow_commands(), name="shadow")
