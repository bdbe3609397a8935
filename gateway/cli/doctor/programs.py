"""The programs: what listens where they would, which models are there, which execution providers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import httpx

from gateway.cli.doctor.finding import Finding, State, fail, ok, warn
from gateway.cli.options import listening_at, trust_in
from gateway.cli.runtimes import provider_options, trusted_key_options
from gateway.settings import Listen, Settings
from inference_protocol import paths
from serving.listener import bind_tcp
from serving.start import StartRefused

_TIMEOUT_S = 2.0
_PROCESS_TIMEOUT_S = 120.0
_BUILD = "`tidegate models build` makes the default ones; `tidegate models list` shows what is there"


def ports(settings: Settings) -> Iterator[Finding]:
    """See who listens where the gateway would: itself, nobody, or somebody else."""
    for field, listen, path in (("listen", settings.listen, paths.LIVE), ("admin", settings.admin, "/status")):
        yield _port(field, listen, path, authenticated=settings.auth.is_promised)


def _port(field: str, listen: Listen, path: str, *, authenticated: bool) -> Finding:
    check, url = f"port {listen.port}", listening_at(listen)
    try:
        answer = httpx.get(url + path, timeout=_TIMEOUT_S, trust_env=False, verify=_trust(listen))
    except httpx.TransportError:
        answer = None
    if answer is not None and (answer.status_code == 200 or "x-request-id" in answer.headers):
        return ok(check, f"Tidegate answers at {url}")
    try:
        bind_tcp(listen.host, listen.port, authenticated=authenticated, tls=listen.secured()).close()
    except StartRefused as exc:
        return fail(check, str(exc).rstrip("."), f"stop what listens there, or set another `{field}.port`")
    return ok(check, f"free: nothing runs at {url} yet")


def _trust(listen: Listen) -> Any:
    return True if listen.tls is None else trust_in(listen)


def models(settings: Settings) -> Iterator[Finding]:
    """See that each model that is served here is in the store, whole and vouched for."""
    wanted = [settings.edge.model, settings.edge.embedding_model] if settings.starts_edge else []
    wanted += [settings.cloud.model, settings.cloud.embedding_model] if settings.stand_in_port is not None else []
    names = list(dict.fromkeys(name for name in wanted if name is not None))
    there = [name for name in names if (settings.folder.models / name / "manifest.json").is_file()]
    for name in names:
        if name not in there:
            yield fail(f"model {name}", f"it is not in {settings.folder.models}", _BUILD)
    for name in there:
        argv = ["edge_runtime.models", "--models-dir", str(settings.folder.models), *trusted_key_options(settings)]
        found = _run([*argv, "verify", "--", name])
        check = f"model {name}"
        if found.returncode == 0:
            yield ok(check, "every file is what its manifest says, and it is signed by a key that is trusted here")
        elif found.returncode == 4 and settings.models.signatures == "dev":
            yield warn(check, "nobody who is trusted signed it", "`models.signatures: required` would refuse it")
        else:
            says = (found.stdout + found.stderr).strip().splitlines()
            fix = f"`tidegate models verify {name}` says which files; pull or build it again"
            yield fail(check, says[-1].rstrip(".") if says else "it cannot be verified", fix)


def providers(settings: Settings) -> Iterator[Finding]:
    """Ask the edge runtime which execution providers are here; a probe of one is `tidegate models probe`."""
    if not settings.starts_edge:
        return
    found = _run(["edge_runtime.providers", "list", "--json", *provider_options(settings)])
    try:
        rows = json.loads(found.stdout)
    except ValueError:
        says = (found.stderr or found.stdout).strip().splitlines()
        yield fail("providers", says[-1] if says else "they cannot be listed", "install ONNX Runtime again")
        return
    for row in rows:
        yield Finding(f"provider {row['name']}", State(row["state"]), row["says"], row.get("fix"))


def _run(module_and_arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", *module_and_arguments]
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=_PROCESS_TIMEOUT_S, check=False)  # noqa: S603  # our own module
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 1, "", f"it did not end within {_PROCESS_TIMEOUT_S:g} s")
