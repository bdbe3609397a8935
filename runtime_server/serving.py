"""A runtime's process: from options to a served socket, and from a signal to a clean end."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence

from inference_protocol.runtime_state import ProviderUse
from observability import TelemetrySettings, set_up
from runtime_server.app import create_app
from runtime_server.chat_model import load_chat_model
from runtime_server.chat_models import ChatModels
from runtime_server.embeddings.opening import LoadEmbedding, open_services
from runtime_server.engine import Engine
from runtime_server.generation_endpoint import RequestLimits
from runtime_server.lifecycle import Lifecycle
from runtime_server.options import RuntimeOptions
from runtime_server.tensors.catalog import Catalog
from serving.listener import Listener, bind_tcp, bind_unix
from serving.logs import set_up_logging
from serving.server import Ending, serve_until_signal
from serving.start import StartRefused

_logger = logging.getLogger(__name__)


def run(
    service_name: str,
    build_engine: Callable[[ChatModels], Engine],
    options: RuntimeOptions,
    load_embedding: LoadEmbedding,
    open_tensors: Callable[[RuntimeOptions], Catalog] = lambda _: Catalog(),
    uses: Callable[[], Sequence[ProviderUse]] = tuple,
) -> int:
    """Serve one engine until a signal ends it.

    Args:
        service_name: The program's name in traces.
        build_engine: Makes the engine, which must not load its model before `start`. It tells the chat models
            of the versions that it serves, if there can be more than one.
        options: From the command line.
        load_embedding: Loads a model that embeds.
        open_tensors: Opens the models that compute tensors; none does where that is left out.
        uses: Tells which execution provider runs what, where there is a choice.

    Returns:
        The process's exit status: 0 after a signal, 1 if the engine could not start, 2 if it was told to serve what
        or where it cannot.
    """
    set_up_logging(options.log_format, service_name)
    try:
        token = options.read_token()
        models = ChatModels(load_chat_model(options.model_dir, options.model_name))
        engine = build_engine(models)
        embeddings = open_services(options, load_embedding)
        tensors = open_tensors(options)
        listener = _bind(options, authenticated=token is not None)
    except StartRefused as exc:
        _logger.error("%s", exc)
        return 2
    with contextlib.closing(listener), set_up(_tracing(service_name, options)) as telemetry:
        beside = [*(service.served for service in embeddings.values()), *(model.served for model in tensors)]
        lifecycle = Lifecycle(engine, beside, uses)
        limits = RequestLimits(default_max_tokens=options.default_max_tokens)
        app = create_app(
            lifecycle,
            models,
            telemetry=telemetry,
            token=token,
            limits=limits,
            embeddings=embeddings,
            tensors=tensors,
        )
        serve_until_signal(app, listener, _ending(lifecycle, options.drain_timeout_s))
        return 1 if lifecycle.failed.is_set() else 0


def _tracing(service_name: str, options: RuntimeOptions) -> TelemetrySettings:
    return TelemetrySettings(
        service_name,
        options.trace_dir,
        options.otlp_endpoint,
        spool_dir=options.otlp_spool,
        spool_bytes=options.otlp_spool_bytes,
    )


def _ending(lifecycle: Lifecycle, drain_timeout_s: float) -> Ending:
    return Ending(
        drain=lambda: lifecycle.drain(drain_timeout_s), hurry=lifecycle.cancel_running, failed=lifecycle.failed
    )


def _bind(options: RuntimeOptions, *, authenticated: bool) -> Listener:
    if options.socket is not None:
        return bind_unix(options.socket)
    return bind_tcp(options.host, options.port or 0, authenticated=authenticated)
