"""The seed of a request, which canaries and samples are drawn from: sticky while a canary runs, otherwise any."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.policies.holder import Canary, StickyBy
from gateway.state.keys import Keys, Purpose, mac
from inference_protocol.conversation import conversation
from inference_protocol.request import InferenceRequest

_BITS = 63


class Seeds:
    """Draws seeds. Who meets a canary can neither be foreseen nor chosen without the installation's secret."""

    def __init__(self, keys: Keys, any_seed: Callable[[], int]) -> None:
        """Derive from the installation's secret; `any_seed` draws where nothing needs to stay as it was."""
        self._key = keys.derive(Purpose.CANARY)
        self._any_seed = any_seed

    def seed(self, canary: Canary | None, tenant: str, request: InferenceRequest) -> int:
        """Return the seed of a request, the same for all that must meet the same policy."""
        if canary is None:
            return self._any_seed()
        parts = [canary.version.loaded.digest.encode(), tenant.encode("utf-8", "surrogatepass")]
        if canary.by is StickyBy.CONVERSATION:
            parts += _first_turns(request.tree)
        return int.from_bytes(mac(self._key, *parts)[:8], "big") >> (64 - _BITS)


def _first_turns(tree: Mapping[str, Any]) -> list[bytes]:
    """What a conversation begins with, up to its first user turn; of anything else, nothing."""
    messages = tree.get("messages")
    if not isinstance(messages, list):
        return []
    roles = [message.get("role") if isinstance(message, dict) else None for message in messages]
    first = roles.index("user") + 1 if "user" in roles else 1
    turns = conversation({"messages": messages[:first]})
    return [part.encode("utf-8", "surrogatepass") for turn in turns for part in (turn.role, turn.text)]
