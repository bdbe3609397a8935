"""`tidegate serve`: the gateway alone, for systemd or Kubernetes to keep running."""

from __future__ import annotations

import contextlib
from pathlib import Path

import typer

from gateway.cli.options import SettingsOption, fail, settings_or_fail
from gateway.settings import Settings
from observability import TelemetrySettings, set_up
from routing_policies.policy.errors import PolicyError
from routing_policies.policy.loader import LoadedPolicy, builtin_names, load_policy
from routing_policies.policy.self_test import failing_tests
from serving.listener import bind_tcp
from serving.server import Ending, serve_until_signal
from serving.start import StartRefused, set_up_logging


def serve(settings_file: SettingsOption = None) -> None:
    """Serve the gateway until a signal ends it; the runtimes are somebody else's to run."""
    settings = settings_or_fail(settings_file)
    policy = policy_or_fail(settings)
    set_up_logging()
    settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        listener = bind_tcp(settings.listen.host, settings.listen.port, authenticated=bool(settings.auth.keys))
    except StartRefused as exc:
        fail(str(exc))
    tracing = TelemetrySettings(
        "gateway",
        settings.traces_dir,
        settings.telemetry.otlp_endpoint,
        sample_ratio=settings.telemetry.sample_ratio,
    )
    from gateway.app import create_app  # noqa: PLC0415  # a second of imports that no other command needs

    with contextlib.closing(listener), set_up(tracing) as telemetry:
        try:
            app = create_app(settings, policy, telemetry.tracer)
        except ValueError as exc:  # a credential or a key that cannot be read
            fail(str(exc))
        serve_until_signal(app.asgi, listener, Ending(lambda: app.admission.drain(settings.timeouts.drain_s)))
    raise typer.Exit(0)


def policy_or_fail(settings: Settings) -> LoadedPolicy:
    """Load the policy that the settings name, and run its own tests, or end the command with what is wrong."""
    source = settings.policy if settings.policy in builtin_names() else Path(settings.policy)
    try:
        loaded = load_policy(source)
    except PolicyError as exc:
        fail(str(exc))
    refuse_failing_tests(loaded)
    unreachable = [name for name in loaded.policy.targets if name not in settings.targets]
    if unreachable:
        fail(
            f"{loaded.origin}: the policy names {', '.join(unreachable)}, and no settings say how to reach that. "
            f"Settings have: {', '.join(settings.targets)}."
        )
    for name in settings.targets.keys() - loaded.policy.targets.keys():
        typer.secho(f"The policy says nothing of the target {name!r}, so nothing is sent there.", err=True)
    return loaded


def refuse_failing_tests(loaded: LoadedPolicy) -> None:
    """Run a policy's own tests, and end the command with those that fail."""
    failures = failing_tests(loaded)
    if failures:
        fail("\n".join(f"{loaded.origin}: test `{failure.test}` fails: {failure.message}" for failure in failures))
