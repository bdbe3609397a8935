"""What a program is told of execution providers on its command line."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from edge_runtime.providers.adapter import Adapter
from edge_runtime.providers.adapters import ADAPTERS
from edge_runtime.providers.book import ProviderBook
from edge_runtime.providers.prober import Bench
from edge_runtime.providers.process import COMMAND
from edge_runtime.providers.providers import Providers
from inference_protocol.provider_policy import ProviderPolicy
from runtime_server.cpus import usable_cpus


def add_provider_options(group: argparse._ArgumentGroup) -> None:
    """Add them to a parser."""
    group.add_argument(
        "--providers",
        type=_policy,
        default=ProviderPolicy(),
        metavar="JSON",
        help="which may run what, as the settings have it under `edge.providers` (default: the CPU alone)",
    )
    group.add_argument(
        "--provider-file",
        type=Path,
        default=Path("providers.json"),
        metavar="FILE",
        help="keeps what probes found, and what is in quarantine (default: %(default)s)",
    )
    group.add_argument(
        "--provider-cache", type=Path, metavar="DIR", help="keeps graphs that providers have compiled (default: none)"
    )


def open_providers(
    arguments: argparse.Namespace, adapters: Sequence[Adapter] = ADAPTERS, command: Sequence[str] = COMMAND
) -> Providers:
    """Return what the options ask for.

    Raises:
        UnknownProvider: They name one that there is not.
    """
    threads = arguments.threads or usable_cpus()
    bench = Bench(arguments.providers, threads, arguments.provider_cache, adapters, command)
    return Providers(bench, ProviderBook(arguments.provider_file, now=time.time))


def _policy(text: str) -> ProviderPolicy:
    try:
        return ProviderPolicy.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise argparse.ArgumentTypeError(f"{place}: {first['msg']}") from None
