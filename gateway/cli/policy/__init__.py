"""`tidegate policy`: look at a policy before it is in force.

Every command ends with status 0 where all is well, 1 where it found something, 2 where it could not read what it was
given.
"""

from __future__ import annotations

import typer

from gateway.cli.policy.compare import diff, simulate
from gateway.cli.policy.explain import explain
from gateway.cli.policy.inspect import check, fmt, run_own_tests, schema
from gateway.cli.policy.matrix import matrix
from gateway.cli.policy.prove import prove
from gateway.cli.policy.shipped import list_shipped, show

app = typer.Typer(help="Look at a policy before it is in force.", no_args_is_help=True)
app.command()(check)
app.command("test")(run_own_tests)
app.command("list")(list_shipped)
for _command in (show, explain, prove, diff, simulate, matrix, schema, fmt):
    app.command()(_command)
