"""Where a conversation's prefix is likely to be cached: the address that it was sent to before, without remembering it.

Rendezvous hashing: every address has a weight for a conversation, and the largest wins. When an address comes or goes,
only the conversations that were at home there move.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

# Of a conversation's turns: its instructions and its first question, which every later request of it repeats.
_FIRST_TURNS = 2


def conversation_key(tenant: str, tree: Mapping[str, Any]) -> bytes:
    """Return what is the same for all requests of a conversation, and of no other tenant's."""
    messages = tree.get("messages")
    turns = messages[:_FIRST_TURNS] if isinstance(messages, list) else tree.get("prompt")
    return hashlib.blake2b(orjson.dumps([tenant, turns], default=str), digest_size=16).digest()


def home_of(key: bytes, addresses: Iterable[str]) -> str:
    """Return the address where a conversation is at home."""
    return max(addresses, key=lambda address: hashlib.blake2b(address.encode(), digest_size=8, key=key).digest())
