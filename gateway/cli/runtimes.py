"""The command lines of the three programs, made from the settings: runtimes are started, never imported."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from gateway.settings import Settings

_MOST_SLOTS = 8
_TUNABLES = "GLIBC_TUNABLES"


def edge_argv(settings: Settings) -> list[str]:
    """How to start the edge runtime."""
    own = settings.edge
    argv = [
        *(sys.executable, "-m", "edge_runtime"),
        *("--model-dir", str(settings.folder.models / own.model)),
        *("--model-name", _served(settings, "edge")),
        *("--socket", str(settings.folder.edge_socket)),
        *(("--slots", str(_MOST_SLOTS), "--measure-slots") if own.slots == "auto" else ("--slots", str(own.slots))),
        *("--context", str(own.context)),
        *("--drafts", own.drafts),
        *("--waiting-limit", str(own.waiting_limit)),
        *("--device-profile", str(settings.folder.device_profile)),
        *provider_options(settings),
        *_common(settings),
    ]
    for option, value in (
        ("--threads", own.threads),
        ("--keep-alive-s", own.keep_alive_s),
        ("--unload-below-mib", own.unload_below_mib),
    ):
        argv += [] if value is None else [option, str(value)]
    if own.keep_prefixes is not None:
        argv += ["--prefix-dir", str(settings.folder.prefixes), "--prefix-mib", str(own.keep_prefixes_mib)]
    if own.embedding_model is not None and own.embedding_keep_alive_s is not None:
        argv += ["--embedding-keep-alive-s", f"{own.embedding_keep_alive_s:g}"]
    for name in own.tensor_models:
        argv += ["--tensor-model-dir", str(settings.folder.models / name)]
    if own.tensor_models and own.tensor_keep_alive_s is not None:
        argv += ["--tensor-keep-alive-s", f"{own.tensor_keep_alive_s:g}"]
    return argv + _embeddings(settings, own.embedding_model)


def edge_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the edge runtime is to be started with: glibc asks for huge pages, which only its start can tell it.

    What the environment says of glibc itself stays as it is.
    """
    return {_TUNABLES: "glibc.malloc.hugetlb=1", **environment}


def cloud_argv(settings: Settings, port: int) -> list[str]:
    """How to start the cloud stand-in."""
    own = settings.cloud
    return [
        *(sys.executable, "-m", "cloud_runtime"),
        *("--model-dir", str(settings.folder.models / own.model)),
        *("--model-name", _served(settings, "cloud")),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--waiting-limit", str(own.waiting_limit)),
        *_common(settings),
        *_embeddings(settings, own.embedding_model),
    ]


def gateway_argv(settings_file: Path | None) -> list[str]:
    """How to start the gateway."""
    argv = [sys.executable, "-m", "gateway.cli", "serve"]
    return argv if settings_file is None else [*argv, "--settings", str(settings_file.absolute())]


def provider_options(settings: Settings) -> list[str]:
    """Return how the edge runtime's programs are told which execution providers may run what."""
    return [
        *("--providers", settings.edge.providers.model_dump_json(exclude_defaults=True)),
        *("--provider-file", str(settings.folder.providers)),
        *("--provider-cache", str(settings.folder.compiled)),
    ]


def trusted_key_options(settings: Settings) -> list[str]:
    """Return how runtimes and the store are told the keys that the settings trust."""
    return [f"--trusted-key={name}={key}" for name, key in settings.models.trusted_keys.items()]


def _served(settings: Settings, target: str) -> str:
    own = settings.targets.get(target)
    return next(iter(own.models.values())) if own is not None else settings.default_model


def _embeddings(settings: Settings, model: str | None) -> list[str]:
    return [] if model is None else ["--embedding-model-dir", str(settings.folder.models / model)]


def _common(settings: Settings) -> list[str]:
    argv = ["--trace-dir", str(settings.folder.traces), "--drain-timeout-s", f"{settings.timeouts.drain_s:g}"]
    if settings.models.signatures == "required":
        argv += ["--trusted-keys", str(settings.folder.model_keys), *trusted_key_options(settings)]
    argv += ["--log-format", settings.telemetry.log_format]
    if settings.telemetry.otlp_endpoint is not None:
        argv += ["--otlp-endpoint", settings.telemetry.otlp_endpoint, "--otlp-spool", str(settings.folder.spool)]
        argv += ["--otlp-spool-bytes", str(settings.telemetry.spool_bytes)]
    return argv
