"""What a person can do with the store, each as one function that prints and returns the exit status."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from edge_runtime.measuring.device_profile import DeviceProfile
from edge_runtime.models.keys import own_key, read_key
from edge_runtime.models.names import split_reference
from edge_runtime.models.pulling import PullOptions, pull_model
from edge_runtime.models.reports import describe, verify_version
from edge_runtime.models.showing import lines, show_version
from edge_runtime.models.store import ModelStore

_DAMAGED, _UNTRUSTED = 3, 4


def pull(store: ModelStore, asked: argparse.Namespace, out: Console) -> int:
    """Fetch a model, and serve it from the next load on."""
    options = PullOptions(
        source=asked.source,
        name=asked.name,
        sha256=asked.sha256,
        hub=asked.hub,
        precision=asked.precision,
        force=asked.force,
        activate=not asked.no_activate,
    )
    version = pull_model(store, options, Console(stderr=True, highlight=False))
    state = "active" if version.active else f"not active: `tidegate models activate {version.reference}`"
    out.print(f"{version.reference} ({state})", soft_wrap=True)
    return 0


def list_versions(store: ModelStore, asked: argparse.Namespace, out: Console) -> int:
    """List every version, the active one of each model marked."""
    found = [describe(store, version) for name in store.names() for version in store.versions(name)]
    if asked.json:
        _print_json(found)
        return 0
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("", "version", "format", "window", "MB", "signed by"):
        table.add_column(column, overflow="fold")
    for row in found:
        size = "?" if row["bytes"] is None else f"{row['bytes'] / 1e6:.0f}"
        signed = "cannot be read" if row["fault"] else ", ".join(row["signed_by"]) or "-"
        known = (row["format"] or "?", str(row["window"] or "?"), size, signed)
        table.add_row("*" if row["active"] else "", row["version"], *known)
    out.print(table)
    for row in found:
        if row["fault"]:
            out.print(f"{row['version']}: {row['fault']}", markup=False, soft_wrap=True)
    return 0


def show(store: ModelStore, asked: argparse.Namespace, out: Console) -> int:
    """Print size, speed here, loss and origin of one version, or of every active one."""
    every = (store.active(name) for name in store.names())
    versions = [version for version in every if version] if asked.model is None else [store.find(asked.model)]
    speeds = {} if asked.profile is None else DeviceProfile(asked.profile, now=time.time).read().models
    rows = [show_version(store, version, speeds) for version in versions]
    if asked.json:
        _print_json(rows if asked.model is None else rows[0])
        return 0
    table = Table(box=None, pad_edge=False, show_header=False)
    for number, row in enumerate(rows):
        if number:
            table.add_row()
        for name, value in lines(row):
            table.add_row(name, Text(value, overflow="fold"))
    out.print(table)
    return 0


def verify(store: ModelStore, asked: argparse.Namespace, out: Console) -> int:
    """Read every file of the versions that are named, or of all, and look at their signatures.

    Returns 3 where a file is damaged, else 4 where a trusted signature is missing, else 0.
    """
    references = asked.model or store.names()
    versions = []
    for reference in references:
        name, version = split_reference(reference)
        versions += store.versions(name) if version is None and not asked.model else [store.find(reference)]
    reports = [verify_version(store, version) for version in versions]
    if asked.json:
        _print_json(reports)
    else:
        for report in reports:
            faults = [*report["faults"], *([report["signature_fault"]] if report["signature_fault"] else [])]
            lines = faults or [f"sound, signed by {', '.join(report['signed_by']) or 'nobody (dev)'}"]
            for line in lines:
                out.print(f"{report['version']}: {line}", markup=False, soft_wrap=True)
    if any(report["faults"] for report in reports):
        return _DAMAGED
    return _UNTRUSTED if any(report["signature_fault"] for report in reports) else 0


def activate(store: ModelStore, asked: argparse.Namespace, out: Console) -> int:
    """Let a model's name stand for a version."""
    out.print(f"{store.activate(store.find(asked.model)).reference} is active.", soft_wrap=True)
    return 0


def rollback(store: ModelStore, asked: argparse.Namespace, out: Console) -> int:
    """Go back to the version that was active before."""
    out.print(f"{store.rollback(asked.model).reference} is active again.", soft_wrap=True)
    return 0


def remove(store: ModelStore, asked: argparse.Namespace, out: Console) -> int:
    """Remove a version, or with `--all` a model."""
    if asked.all:
        store.remove_all(asked.model)
    else:
        store.remove(store.find(asked.model))
    out.print(f"{asked.model} is removed.", soft_wrap=True)
    return 0


def sign_version(store: ModelStore, asked: argparse.Namespace, out: Console) -> int:
    """Verify a version and sign it, with this machine's key unless another is given."""
    key = own_key(store.keys) if asked.key is None else read_key(asked.key)
    version = store.find(asked.model)
    store.sign(version, key)
    out.print(f"{version.reference} is signed by the key {key.public.id}.", soft_wrap=True)
    return 0


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, default=_text))  # noqa: T201  # machine-readable output, not wrapped by rich


def _text(value: Any) -> str:
    return str(value) if isinstance(value, Path) else repr(value)
