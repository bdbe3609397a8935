"""`python -m edge_runtime.measuring`: what this machine can do with a model, and which models fit it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from edge_runtime.build.progress import Steps
from edge_runtime.measuring.bandwidth import measure_bandwidth
from edge_runtime.measuring.device_profile import DeviceProfile
from edge_runtime.measuring.fit import USUAL_SHARE, fits
from edge_runtime.measuring.speed import measure_speed
from edge_runtime.residency.memory import available_bytes
from runtime_server.cpus import usable_cpus
from runtime_server.model_manifest import ModelDamaged, ModelMissing, ModelUnsupported, read_manifest
from runtime_server.options import at_least

_MB, _GB = 1e6, 1e9


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and return the exit status: 0, or 1 with a message."""
    asked = _parser().parse_args(arguments)
    steps = Steps(Console(stderr=True))
    profile = DeviceProfile(asked.profile, now=time.time)
    try:
        found, table = _bench(asked, profile, steps) if asked.command == "bench" else _fit(asked, profile, steps)
    except (ModelMissing, ModelDamaged, ModelUnsupported) as error:
        steps.say(str(error))
        return 1
    if asked.json:
        print(json.dumps(found, indent=2))  # noqa: T201  # machine-readable output, not wrapped by rich
    else:
        Console(highlight=False).print(table)
    return 0


def _bench(asked: argparse.Namespace, profile: DeviceProfile, steps: Steps) -> tuple[dict[str, Any], Table]:
    read_manifest(asked.model_dir)  # before anything takes time
    threads = asked.threads or usable_cpus()
    bytes_per_s = _bandwidth(threads, profile, steps)
    with steps.step(f"Loading {asked.model_dir.name} and letting it answer"):
        speed = measure_speed(asked.model_dir, threads)
    profile.record_model(speed.state)
    ceiling = bytes_per_s / speed.bytes_per_token
    found = {
        "model": asked.model_dir.name,
        "threads": threads,
        "memory_gb_per_s": round(bytes_per_s / _GB, 2),
        "mb_per_token": round(speed.bytes_per_token / _MB, 1),
        "ceiling_tokens_per_s": round(ceiling, 1),
        "tokens_per_s": round(speed.tokens_per_s, 1),
        "share_of_ceiling": round(speed.tokens_per_s / ceiling, 3),
        "prefill_tokens_per_s": round(speed.prefill_tokens_per_s, 1),
        "ms_per_step": {rows: round(ms, 2) for rows, ms in sorted(speed.state.ms_per_token.items())},
    }
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in (
        ("model", asked.model_dir.name),
        ("memory read", f"{found['memory_gb_per_s']} GB/s with {threads} threads"),
        ("weights a token", f"{found['mb_per_token']} MB"),
        ("ceiling", f"{found['ceiling_tokens_per_s']} tokens/s: memory read / weights a token"),
        ("one request", f"{found['tokens_per_s']} tokens/s, {speed.tokens_per_s / ceiling:.0%} of the ceiling"),
        ("reading prompts", f"{found['prefill_tokens_per_s']} tokens/s"),
        *((f"{rows} at once", _step(rows, ms)) for rows, ms in sorted(speed.state.ms_per_token.items())),
    ):
        table.add_row(name, value)
    return found, table


def _step(rows: int, ms: float) -> str:
    return f"{ms:.2f} ms a step, {rows * 1000 / ms:.0f} tokens/s together"


def _fit(asked: argparse.Namespace, profile: DeviceProfile, steps: Steps) -> tuple[dict[str, Any], Table]:
    known = profile.read()
    bytes_per_s = known.bytes_per_s or _bandwidth(asked.threads or usable_cpus(), profile, steps)
    available = available_bytes() if asked.memory_gb is None else int(asked.memory_gb * _GB)
    if available is None:
        raise ModelUnsupported("This machine does not say how much memory is free; say it with --memory-gb.")
    rows = fits(available, bytes_per_s, USUAL_SHARE, asked.context)
    found = {
        "available_mb": round(available / _MB),
        "memory_gb_per_s": round(bytes_per_s / _GB, 2),
        "share_of_ceiling": USUAL_SHARE,
        "context": asked.context,
        "models": [asdict(row) | {"tokens_per_s": round(row.tokens_per_s, 1)} for row in rows],
    }
    title = f"{available / _GB:.1f} GB available, read at {bytes_per_s / _GB:.1f} GB/s; slots of {asked.context} tokens"
    table = Table(box=None, pad_edge=False, header_style="dim", title=title, title_justify="left")
    for column in ("model", "blocks", "download MB", "memory MB", "slots", "tokens/s"):
        table.add_column(column, justify="left" if column in {"model", "blocks"} else "right")
    for row in rows:
        slots = str(row.slots) if row.slots else "does not fit"
        sizes = (f"{row.file_bytes / _MB:.0f}", f"{row.one_slot_bytes / _MB:.0f}")
        table.add_row(row.model, row.blocks, *sizes, slots, f"{row.tokens_per_s:.0f}" if row.slots else "")
    return found, table


def _bandwidth(threads: int, profile: DeviceProfile, steps: Steps) -> float:
    with steps.step("Measuring how fast memory is read"):
        bytes_per_s = measure_bandwidth(threads)
    profile.record_bandwidth(bytes_per_s)
    return bytes_per_s


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m edge_runtime.measuring", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    bench = commands.add_parser("bench", help="a model's speed here, and the ceiling that memory sets")
    bench.add_argument("--model-dir", type=Path, required=True)
    fit = commands.add_parser("fit", help="which known models fit, and with how many slots")
    fit.add_argument("--context", type=at_least(16), default=2048, help="most tokens of one slot")
    fit.add_argument("--memory-gb", type=float, help="instead of what is free now")
    for command in (bench, fit):
        command.add_argument("--profile", type=Path, required=True, help="the file that keeps what was measured")
        command.add_argument("--threads", type=at_least(1), help="default: the CPUs this process may use")
        command.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
