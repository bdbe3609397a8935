"""The `tidegate` command."""

from __future__ import annotations

import typer

from gateway.cli import keys, models, outbox, policy
from gateway.cli.ask import ask
from gateway.cli.conformance import conformance
from gateway.cli.doctor.command import doctor
from gateway.cli.explain import explain
from gateway.cli.measure import bench, fit
from gateway.cli.report import report
from gateway.cli.runtime_commands import cloud, edge
from gateway.cli.serve import serve
from gateway.cli.status import status
from gateway.cli.trace import trace
from gateway.cli.up import up
from gateway.cli.version import root


def main() -> None:
    """Run the command line."""
    app = typer.Typer(
        callback=root,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,  # a traceback with local variables would print prompts
    )
    for command in (up, serve, status, ask, explain, trace, report, doctor, bench, conformance):
        app.command()(command)
    app.add_typer(edge, name="edge")
    app.add_typer(cloud, name="cloud")
    models.app.command()(fit)
    app.add_typer(models.app, name="models")
    app.add_typer(policy.app, name="policy")
    app.add_typer(outbox.app, name="outbox")
    app.add_typer(keys.app, name="keys")
    app()
