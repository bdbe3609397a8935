"""What a person can do with keys: list, add and remove those that are trusted, and make one to sign with."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from edge_runtime.models import keys
from edge_runtime.models.errors import KeyRefused
from edge_runtime.models.store import ModelStore
from runtime_server.model_signature import read_keys
from serving.signatures import PrivateKey, PublicKey


def list_keys(store: ModelStore, asked: argparse.Namespace, out: Console) -> int:
    """List the keys whose models are trusted."""
    found = read_keys(store.trusted)
    given = _given(store)
    if asked.json:
        rows = [
            {"name": name, "id": key.id, "key": key.text, "in_settings": name in given} for name, key in found.items()
        ]
        print(json.dumps(rows, indent=2))  # noqa: T201  # machine-readable output, not wrapped by rich
        return 0
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("name", "id", "key", "in"):
        table.add_column(column, overflow="fold")
    for name, key in found.items():
        table.add_row(name, key.id, key.text, "the settings" if name in given else "the state folder")
    out.print(table)
    return 0


def add(store: ModelStore, asked: argparse.Namespace, out: Console) -> int:
    """Trust a key, given in base64 or as the file that holds it."""
    text = asked.key
    if Path(text).is_file():
        text = Path(text).read_text(encoding="utf-8", errors="replace")
    key = PublicKey.from_text(text.strip())
    if asked.name in _given(store):
        raise KeyRefused(f"There is a key `{asked.name}` in the settings (`models.trusted_keys`). Choose another name.")
    keys.trust(store.keys, asked.name, key)
    out.print(f"Models signed by `{asked.name}` ({key.id}) are trusted now.", soft_wrap=True)
    return 0


def remove(store: ModelStore, asked: argparse.Namespace, out: Console) -> int:
    """Trust a key no longer."""
    if asked.name in _given(store):
        raise KeyRefused(f"The key `{asked.name}` stands in the settings: remove it from `models.trusted_keys` there.")
    keys.distrust(store.keys, asked.name)
    out.print(f"Models that only `{asked.name}` signed are not loaded any more.", soft_wrap=True)
    return 0


def new(store: ModelStore, asked: argparse.Namespace, out: Console) -> int:
    """Make a publisher's key in a file of its own, and print the public half."""
    key = PrivateKey.make()
    try:
        key.save(asked.file)
    except FileExistsError:
        raise KeyRefused(f"{asked.file} is there already; it is not overwritten.") from None
    out.print(f"The private key is in {asked.file}; keep it to yourself. The public key:", soft_wrap=True)
    out.print(key.public.text, soft_wrap=True)
    return 0


def _given(store: ModelStore) -> set[str]:
    """The names of keys that the settings trust."""
    return {given.partition("=")[0] for given in store.trusted.given}
