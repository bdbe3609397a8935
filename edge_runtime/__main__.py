"""`python -m edge_runtime`: serve one ONNX model from this box."""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from edge_runtime.embeddings.graph import load_embedding_graph
from edge_runtime.generation.loading import EngineSettings
from edge_runtime.measuring.device_profile import DeviceProfile
from edge_runtime.providers.adapter import Adapter
from edge_runtime.providers.adapters import ADAPTERS
from edge_runtime.providers.options import add_provider_options, open_providers
from edge_runtime.providers.process import COMMAND
from edge_runtime.providers.providers import Providers, UnknownProvider
from edge_runtime.residency.engine import ResidencyPolicy, ResidentEngine
from edge_runtime.tensors.opening import open_catalog
from runtime_server import serving
from runtime_server.options import RuntimeOptions, argument_parser, at_least
from runtime_server.tensors.catalog import Catalog

_DRAFTS = {"auto": None, "on": True, "off": False}


def _parser() -> argparse.ArgumentParser:
    parser = argument_parser("python -m edge_runtime", __doc__ or "")
    edge = parser.add_argument_group("the engine")
    edge.add_argument("--slots", type=at_least(1), default=4, metavar="N", help="requests that run at once")
    edge.add_argument(
        "--measure-slots", action="store_true", help="run fewer at once where more give hardly more tokens a second"
    )
    edge.add_argument("--context", type=at_least(16), default=2048, metavar="N", help="most tokens of one request")
    edge.add_argument("--threads", type=at_least(1), metavar="N", help="threads of one run (default: its CPUs)")
    edge.add_argument("--device-profile", type=Path, metavar="FILE", help="where to keep how fast the model is here")
    edge.add_argument(
        "--drafts",
        choices=_DRAFTS,
        default="auto",
        help="guess how an answer goes on and check several tokens at once, for one request alone; "
        "`auto` does where that changes no answer (default: %(default)s)",
    )
    _add_memory(parser.add_argument_group("memory"))
    add_provider_options(parser.add_argument_group("execution providers"))
    tensors = parser.add_argument_group("tensors")
    tensors.add_argument(
        "--tensor-model-dir",
        type=Path,
        action="append",
        dest="tensor_model_dirs",
        default=[],
        metavar="DIR",
        help="folder of a model that computes tensors; may be named several times (default: none does)",
    )
    tensors.add_argument(
        "--tensor-keep-alive-s",
        type=float,
        metavar="S",
        help="unload such a model after so long without a request; it is reloaded",
    )
    return parser


def _add_memory(memory: argparse._ArgumentGroup) -> None:
    memory.add_argument(
        "--prefix-dir",
        type=Path,
        metavar="DIR",
        help="keep keys and values of prompts here, of requests that say they may be kept (default: nowhere)",
    )
    memory.add_argument(
        "--prefix-mib", type=at_least(1), default=512, metavar="N", help="most of them (default: %(default)s)"
    )
    memory.add_argument(
        "--keep-alive-s",
        type=float,
        metavar="S",
        help="unload the model after so long without a request; it is reloaded",
    )
    memory.add_argument(
        "--unload-below-mib",
        type=at_least(1),
        metavar="N",
        help="unload a model that nobody asks when less memory than this is available",
    )


def main(adapters: Sequence[Adapter] = ADAPTERS, command: Sequence[str] = COMMAND) -> int:
    """Run until a signal; return the process's exit status.

    Args:
        adapters: Execution providers that there are.
        command: How the process of one is started.
    """
    parser = _parser()
    arguments = parser.parse_args()
    options = RuntimeOptions.from_arguments(arguments)
    settings = EngineSettings(
        folder=options.model_dir,
        model_name=options.model_name,
        slots=arguments.slots,
        measures_slots=arguments.measure_slots,
        context=arguments.context,
        waiting_limit=options.waiting_limit,
        threads=arguments.threads,
        trusted_keys=options.trusted_keys,
        prefix_folder=arguments.prefix_dir,
        prefix_mib=arguments.prefix_mib,
        drafts=_DRAFTS[arguments.drafts],
    )
    below = arguments.unload_below_mib
    policy = ResidencyPolicy(
        keep_alive_s=arguments.keep_alive_s, unload_below_bytes=None if below is None else below << 20
    )
    path = arguments.device_profile
    told = None if path is None else DeviceProfile(path, now=time.time).record_model
    try:
        providers = open_providers(arguments, adapters, command)
    except UnknownProvider as error:
        parser.error(str(error))
    return serving.run(
        "edge_runtime",
        lambda models: ResidentEngine(settings, models, policy, loaded=told),
        options,
        functools.partial(load_embedding_graph, providers=providers),
        functools.partial(_open_tensors, arguments=arguments, providers=providers),
        providers.uses,
    )


def _open_tensors(options: RuntimeOptions, arguments: argparse.Namespace, providers: Providers) -> Catalog:
    return open_catalog(options, arguments.tensor_model_dirs, providers, arguments.tensor_keep_alive_s)


if __name__ == "__main__":
    sys.exit(main())
