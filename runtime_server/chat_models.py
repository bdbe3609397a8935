"""How to talk to each version of a model that a runtime serves: a prompt only fits the version it is made for."""

from __future__ import annotations

from runtime_server.chat_model import ChatModel


class ChatModels:
    """Chat models by the digest of their version. It belongs to the event loop.

    Attributes:
        latest: The one that was added last, which stands for every version that is not known.
    """

    def __init__(self, first: ChatModel) -> None:
        """Begin with the one that stands for every version until one is added."""
        self.latest = first
        self._versions: dict[str, ChatModel] = {}

    def add(self, digest: str, model: ChatModel) -> None:
        """Know a version."""
        self._versions[digest] = self.latest = model

    def drop(self, digest: str) -> None:
        """Forget a version, if it is known."""
        self._versions.pop(digest, None)

    def of(self, digest: str) -> ChatModel:
        """Return how to talk to the version that `RuntimeState.models` calls by this digest."""
        return self._versions.get(digest, self.latest)
