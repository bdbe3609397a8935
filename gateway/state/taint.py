"""Taint: a conversation keeps the label that one of its turns was given by header or key, when later turns say nothing.

What detectors found needs no memory, since the history is resent and scanned again. Each labelled request is kept as a
digest of all its turns under its tenant's key, and a later request that begins with the same turns inherits its label.
The answer is no part of the digest: clients trim and edit answers, and a label must survive that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.off_loop import READ_BYTES, off_loop_if_large
from gateway.state.keys import Keys, Purpose, mac
from gateway.state.label_store import LabelStore, StoreUnreadable
from inference_protocol.conversation import conversation
from inference_protocol.request import InferenceRequest
from routing_policies.signals.label import NOTHING, Component

__all__ = ["StoreUnreadable", "Taints"]


class Taints:
    """Recalls and remembers the labels of conversations."""

    def __init__(self, store: LabelStore, keys: Keys) -> None:
        """Keep labels in `store`, under keys of each tenant's own."""
        self._store = store
        self._keys = keys

    async def recall(self, request: InferenceRequest, tenant: str) -> Component:
        """Return what earlier turns of this conversation were labelled.

        Raises:
            StoreUnreadable: That cannot be known, and the request shows that there were earlier turns.
        """
        earlier = (await self._prefixes(request, tenant))[:-1]
        if not earlier:
            return NOTHING
        try:
            return await self._store.read(earlier)
        except StoreUnreadable:
            if any(turn.role == "assistant" for turn in conversation(request.tree)):
                raise
            return NOTHING

    async def remember(self, request: InferenceRequest, tenant: str, component: Component) -> None:
        """Keep what a request was labelled, by itself or by an earlier turn, for the turns that follow it."""
        if component == NOTHING:
            return
        prefixes = await self._prefixes(request, tenant)
        if prefixes:
            await self._store.write(prefixes[-1], component)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    async def _prefixes(self, request: InferenceRequest, tenant: str) -> list[bytes]:
        key = self._keys.derive(Purpose.TAINT, tenant)
        return await off_loop_if_large(len(request.raw), READ_BYTES, _prefixes, request.tree, key)


def _prefixes(tree: Mapping[str, Any], key: bytes) -> list[bytes]:
    """Return the digest of the first turn, of the first two, and so on to all of them."""
    found: list[bytes] = []
    before = b""
    for turn in conversation(tree):
        before = mac(key, before, turn.role.encode(), turn.text.encode("utf-8", "surrogatepass"))
        found.append(before)
    return found
