"""What a person asks of a model: how large it is, how fast it is here, what it lost, and who vouches for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edge_runtime.measuring.device_profile import ModelSpeed
from edge_runtime.models.reports import describe
from edge_runtime.models.store import ModelStore
from edge_runtime.models.version import Version

_LARGE = 1e6


def show_version(store: ModelStore, version: Version, speeds: Mapping[str, ModelSpeed]) -> dict[str, Any]:
    """Return what is known of a version, and how fast it was found to be on this machine, by its digest."""
    row = describe(store, version)
    speed = speeds.get(row.get("digest") or "")
    return row | {"speed": None if speed is None else speed.model_dump(mode="json")}


def lines(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what `show_version` returned as labels and sentences."""
    yield "version", f"{row['version']}{' (active)' if row['active'] else ''}"
    if row["fault"] is not None:
        yield "fault", row["fault"]
        return
    yield "public name", row["public_model"]
    yield "size", f"{row['bytes'] / _LARGE:.0f} MB, {row['format']}, window of {row['window']} tokens"
    yield "speed here", _speed(row["speed"], row["model"])
    yield "loss", _loss(row["gate"])
    yield "signed by", ", ".join(row["signed_by"]) or "nobody who is trusted here"
    yield "made of", ", ".join(f"{key} {value}" for key, value in row["source"].items())
    if row["origin"]:
        yield "came from", ", ".join(f"{key} {value}" for key, value in row["origin"].items())
    yield "made by", ", ".join(f"{tool} {version}" for tool, version in row["created_by"].items())
    yield "digest", row["digest"]
    yield "folder", row["folder"]


def _speed(speed: dict[str, Any] | None, model: str) -> str:
    if speed is None:
        return f"not measured yet: `tidegate bench {model}`, or serve it"
    steps = {int(rows): ms for rows, ms in speed["ms_per_token"].items() if ms}
    alone = [f"{1000 / steps[1]:.0f} tokens/s alone"] if 1 in steps else []
    most = max(steps, default=1)
    together = [f"{most * 1000 / steps[most]:.0f} tokens/s with {most} at once"] if most > 1 else []
    read = speed["prefill_tokens_per_s"]
    return ", ".join([*alone, *together, *([] if read is None else [f"prompts at {read:.0f} tokens/s"])])


def _loss(gate: dict[str, Any] | None) -> str:
    if gate is None:
        return "not measured"
    figures = (
        f"mean KL {gate['mean_kl']}, top-1 agreement {gate['top1_agreement']}, perplexity {gate['perplexity']} "
        f"(exact {gate['perplexity_exact']}), greedy agreement {gate['greedy_agreement']}"
    )
    return f"{figures}; let in by --force" if gate["forced"] else figures
