"""`tidegate serve`: the gateway alone, for systemd or Kubernetes to keep running."""

from __future__ import annotations

import contextlib

import typer

from gateway.cli.checks import begin_or_fail, prepare_state_folder, refuse_missing_credentials
from gateway.cli.options import SettingsOption, fail, settings_or_fail
from gateway.settings import Settings
from observability import TelemetrySettings, set_up
from serving.arenas import share_arenas
from serving.inherited import inherited_sockets, listen_on
from serving.listener import Listener, bind_tcp
from serving.logs import set_up_logging
from serving.server import Beside, Ending, serve_until_signal
from serving.start import StartRefused


def serve(settings_file: SettingsOption = None) -> None:
    """Serve the gateway until a signal ends it; the runtimes are somebody else's to run."""
    settings = settings_or_fail(settings_file)
    refuse_missing_credentials(settings)
    set_up_logging(settings.telemetry.log_format, "gateway")
    share_arenas()
    prepare_state_folder(settings)
    begun = begin_or_fail(settings)
    try:
        listener, admin = _listeners(settings)
    except StartRefused as exc:
        fail(str(exc))
    tracing = TelemetrySettings(
        "gateway",
        settings.folder.traces,
        settings.telemetry.otlp_endpoint,
        sample_ratio=settings.telemetry.sample_ratio,
        spool_dir=settings.folder.spool,
        spool_bytes=settings.telemetry.spool_bytes,
    )
    from gateway.app import create_app  # noqa: PLC0415  # a second of imports that no other command needs

    with contextlib.closing(listener), contextlib.closing(admin), set_up(tracing) as telemetry:
        try:
            app = create_app(settings, begun, telemetry.tracer)
        except ValueError as exc:  # a credential or a key that cannot be read
            fail(str(exc))
        telemetry.export_metrics(app.meters)
        serve_until_signal(
            app.asgi,
            listener,
            Ending(lambda: app.admission.drain(settings.timeouts.drain_s)),
            beside=Beside(app.admin, admin),
            on_hangup=app.reload,
        )
    raise typer.Exit(0)


def _listeners(settings: Settings) -> tuple[Listener, Listener]:
    """Take the addresses that a service manager passed on, and bind the others.

    Raises:
        StartRefused: One of them must not, or cannot, be served.
    """
    passed, authenticated = inherited_sockets(), settings.auth.is_promised
    listener, admin = (
        listen_on(passed[name], authenticated=authenticated, tls=each.secured())
        if name in passed
        else bind_tcp(each.host, each.port, authenticated=authenticated, tls=each.secured())
        for name, each in (("gateway", settings.listen), ("admin", settings.admin))
    )
    return listener, admin
