"""The command line that both runtimes share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from observability.telemetry import SPOOL_BYTES
from runtime_server.trusted_keys import TrustedKeys
from serving.logs import LogFormat
from serving.start import StartRefused

_MIN_TOKEN_CHARS = 16


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """What a runtime's process is told. Either `socket` is set or `host` and `port` count."""

    model_dir: Path
    model_name: str
    trusted_keys: TrustedKeys | None
    socket: Path | None
    host: str
    port: int | None
    token_file: Path | None
    waiting_limit: int
    default_max_tokens: int
    trace_dir: Path | None
    otlp_endpoint: str | None
    otlp_spool: Path | None
    otlp_spool_bytes: int
    log_format: LogFormat
    drain_timeout_s: float
    embedding_model_dir: Path | None
    embedding_model_name: str | None
    embedding_keep_alive_s: float | None

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> RuntimeOptions:
        """Pick the shared options out of what `argument_parser` parsed."""
        found = {name: getattr(arguments, name) for name in cls.__dataclass_fields__}
        if arguments.trusted_keys is not None:
            found["trusted_keys"] = TrustedKeys(arguments.trusted_keys, tuple(arguments.trusted_key))
        return cls(**found)

    def read_token(self) -> str | None:
        """Return the token that callers must send, or `None` where none is asked for.

        Raises:
            StartRefused: The file cannot be read or holds no token worth the name.
        """
        if self.token_file is None:
            return None
        try:
            token = self.token_file.read_text(encoding="ascii").strip()
        except OSError as exc:
            raise StartRefused(f"The token file cannot be read: {exc.strerror}.") from None
        except UnicodeDecodeError:
            raise StartRefused("The token file must hold ASCII text.") from None
        if len(token) < _MIN_TOKEN_CHARS:
            raise StartRefused(f"The token must have at least {_MIN_TOKEN_CHARS} characters.")
        return token


def argument_parser(program: str, description: str, *, default_port: int | None = None) -> argparse.ArgumentParser:
    """Return a parser of the shared options; a runtime adds its own to it.

    Args:
        program: How it was called.
        description: One sentence.
        default_port: The TCP port where the caller names neither port nor socket; `None` makes them name one.
    """
    parser = argparse.ArgumentParser(program, description=description)
    parser.add_argument("--model-dir", type=Path, required=True, metavar="DIR", help="folder of the model to serve")
    parser.add_argument("--model-name", required=True, metavar="NAME", help="the name that requests ask for")
    parser.add_argument(
        "--trusted-keys",
        type=Path,
        metavar="DIR",
        help="refuse a model that no key in this folder signed (default: signatures are not looked at)",
    )
    parser.add_argument(
        "--trusted-key", action="append", default=[], metavar="NAME=KEY", help="a further key, in base64"
    )
    _add_place(parser, default_port)
    _add_load(parser)
    _add_embeddings(parser)
    _add_telemetry(parser)
    return parser


def _add_telemetry(parser: argparse.ArgumentParser) -> None:
    telemetry = parser.add_argument_group("telemetry")
    telemetry.add_argument("--trace-dir", type=Path, metavar="DIR", help="folder for traces as JSON lines")
    telemetry.add_argument("--otlp-endpoint", metavar="URL", help="OTLP/HTTP collector, such as http://127.0.0.1:4318")
    telemetry.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="what a line on standard error is (default: %(default)s)",
    )
    telemetry.add_argument(
        "--otlp-spool", type=Path, metavar="DIR", help="folder for what the collector has not taken yet"
    )
    telemetry.add_argument(
        "--otlp-spool-bytes",
        type=at_least(64 * 1024),
        default=SPOOL_BYTES,
        metavar="N",
        help="most that may wait there; the oldest is dropped beyond it (default: %(default)s)",
    )


def _add_place(parser: argparse.ArgumentParser, default_port: int | None) -> None:
    where = parser.add_argument_group("where it listens")
    place = where.add_mutually_exclusive_group(required=default_port is None)
    place.add_argument("--socket", type=Path, metavar="PATH", help="a Unix socket, for this user alone")
    usual = "" if default_port is None else " (default: %(default)s)"
    place.add_argument(
        "--port", type=int, default=default_port, metavar="N", help=f"a TCP port; 0 takes any that is free{usual}"
    )
    where.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address of the TCP port; one that other machines reach needs --token-file (default: %(default)s)",
    )
    where.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the token that callers must send as `authorization: Bearer ...`",
    )


def _add_load(parser: argparse.ArgumentParser) -> None:
    load = parser.add_argument_group("load")
    load.add_argument(
        "--waiting-limit",
        type=at_least(0),
        default=16,
        metavar="N",
        help="requests that may wait for a slot; one more is refused (default: %(default)s)",
    )
    load.add_argument(
        "--default-max-tokens",
        type=at_least(1),
        default=512,
        metavar="N",
        help="length of an answer where the request names none (default: %(default)s)",
    )
    load.add_argument(
        "--drain-timeout-s",
        type=float,
        default=30.0,
        metavar="S",
        help="seconds that running requests have to finish after SIGTERM or Ctrl-C (default: %(default)s)",
    )


def _add_embeddings(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("embeddings")
    group.add_argument(
        "--embedding-model-dir", type=Path, metavar="DIR", help="folder of a model that embeds (default: none does)"
    )
    group.add_argument(
        "--embedding-model-name", metavar="NAME", help="the name that requests ask for it by (default: its own)"
    )
    group.add_argument(
        "--embedding-keep-alive-s",
        type=float,
        metavar="S",
        help="unload it after so long without a request; it is loaded when it is first asked, and again",
    )


def at_least(least: int) -> Callable[[str], int]:
    """Return a reader of integers that are not below `least`."""

    def integer(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return value

    return integer
