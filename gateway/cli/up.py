"""`tidegate up`: all three programs on this machine, in the foreground, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import typer
from rich.console import Console

from gateway.child import ChildSpec
from gateway.cli import banner
from gateway.cli.checks import begin_or_fail, prepare_state_folder, refuse_missing_credentials, refuse_unanswered_probes
from gateway.cli.marked_lines import MarkedLines, say_as_json
from gateway.cli.options import SettingsOption, base_url, fail, settings_or_fail, trust
from gateway.cli.runtimes import cloud_argv, edge_argv, edge_environment, gateway_argv
from gateway.settings import Settings
from gateway.supervise import Patience, Supervisor
from inference_protocol import paths
from serving.listener import bind_tcp
from serving.logs import set_up_logging
from serving.start import StartRefused

_PROBE_TIMEOUT_S = 2.0
_PROBE_EVERY_S = 0.2


def up(settings_file: SettingsOption = None) -> None:
    """Start the edge runtime, the cloud stand-in (where `cloud` is not a real one) and the gateway."""
    settings = settings_or_fail(settings_file)
    refuse_missing_credentials(settings)
    refuse_unanswered_probes(settings)
    prepare_state_folder(settings)
    begin_or_fail(settings)
    wanted = [settings.edge.model] if settings.starts_edge else []
    wanted += [settings.cloud.model] if settings.stand_in_port is not None else []
    missing = [name for name in wanted if not (settings.folder.models / name / "manifest.json").is_file()]
    if missing:
        fail(
            f"There is no model {' and no model '.join(missing)} in {settings.folder.models}. "
            "Build the default models with `tidegate models build`."
        )
    _refuse_taken_ports(settings)
    log_format = settings.telemetry.log_format
    if log_format == "json":
        set_up_logging(log_format, "up")
    console = Console(highlight=False, quiet=log_format == "json")
    raise typer.Exit(asyncio.run(_run(settings, settings_file, console)))


def _refuse_taken_ports(settings: Settings) -> None:
    """End the command if somebody listens where a program would: their answers would pass for its."""
    wanted = [
        (settings.listen.host, settings.listen.port, "listen.port"),
        (settings.admin.host, settings.admin.port, "admin.port"),
    ]
    if settings.stand_in_port is not None:
        wanted.append(("127.0.0.1", settings.stand_in_port, "targets.cloud.endpoints"))
    for host, port, field in wanted:
        try:
            bind_tcp(host, port, authenticated=settings.auth.is_promised).close()
        except StartRefused as exc:
            fail(f"{exc} Stop what listens there, or set another port in the settings: `{field}`.")


async def _run(settings: Settings, settings_file: Path | None, console: Console) -> int:
    url = base_url(None, settings_file)
    children, programs = _children(settings, settings_file, url)
    bearings = banner.Bearings(url, settings.default_model, programs, settings.folder.records, settings.folder.traces)
    console.print(banner.starting(bearings), soft_wrap=True)
    marked = MarkedLines(console, [child.name for child in children])
    say = say_as_json if settings.telemetry.log_format == "json" else marked.say
    supervisor = Supervisor(children, say, patience=Patience(drain_s=settings.timeouts.drain_s + 5.0))
    announcing = asyncio.create_task(_announce(url, bearings, console, trust(None, settings_file)))
    try:
        return await supervisor.run()
    finally:
        announcing.cancel()
        await asyncio.gather(announcing, return_exceptions=True)


def _children(
    settings: Settings, settings_file: Path | None, url: str
) -> tuple[list[ChildSpec], tuple[tuple[str, str], ...]]:
    environment = {**os.environ, "TIDEGATE_STATE_DIR": str(settings.state_dir)}
    children: list[ChildSpec] = []
    programs: list[tuple[str, str]] = []
    if settings.starts_edge:
        lives = _answers(f"http://edge{paths.LIVE}", socket_path=str(settings.folder.edge_socket))
        children.append(ChildSpec("edge", tuple(edge_argv(settings)), edge_environment(environment), lives))
        programs.append(("edge", f"{settings.edge.model} on ONNX Runtime, {settings.folder.edge_socket}"))
    port = settings.stand_in_port
    if port is not None:
        lives = _answers(f"http://127.0.0.1:{port}{paths.LIVE}")
        children.append(ChildSpec("cloud", tuple(cloud_argv(settings, port)), environment, lives))
        programs.append(("cloud", f"a stand-in: {settings.cloud.model} on torch, port {port}"))
    for name, target in settings.targets.items():
        if name not in {child.name for child in children}:
            programs.append((name, f"{target.endpoints[0]}, not started here"))
    lives = _answers(f"{url}{paths.LIVE}", verify=trust(None, settings_file))
    children.append(ChildSpec("gateway", tuple(gateway_argv(settings_file)), environment, lives))
    programs.append(("gateway", f"{url}, policy {settings.policy}"))
    return children, tuple(programs)


def _answers(
    url: str, socket_path: str | None = None, verify: ssl.SSLContext | bool = True
) -> Callable[[], Awaitable[bool]]:
    async def probe() -> bool:
        answer = await _get(url, socket_path, verify)
        return answer is not None and answer.status_code == 200

    return probe


async def _announce(url: str, bearings: banner.Bearings, console: Console, verify: ssl.SSLContext | bool) -> None:
    """Tell of each change, and once, when what is started here can answer, how to use it.

    The stand-in takes longer to load than the edge, so it is not waited for.
    """
    started = time.monotonic()
    before: banner.Readiness | None = None
    told_how = False
    while True:
        answer = await _get(f"{url}{paths.READY}", verify=verify)
        if answer is not None:
            now = banner.Readiness.from_answer(answer.json())
            line = banner.progress(before, now, time.monotonic() - started)
            if line is not None:
                console.print(line, soft_wrap=True)
            if now.ready and now.targets.get("edge", "up") == "up" and not told_how:
                console.print(banner.ready(bearings), soft_wrap=True)
                told_how = True
            before = now
        await asyncio.sleep(_PROBE_EVERY_S if not told_how else 1.0)


async def _get(url: str, socket_path: str | None = None, verify: ssl.SSLContext | bool = True) -> httpx.Response | None:
    transport = httpx.AsyncHTTPTransport(uds=socket_path, trust_env=False, verify=verify)
    try:
        async with httpx.AsyncClient(transport=transport, timeout=_PROBE_TIMEOUT_S) as client:
            return await client.get(url)
    except httpx.TransportError:
        return None
