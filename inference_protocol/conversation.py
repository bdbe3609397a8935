"""A request as a conversation: who said what, in the form in which a client resends it on the next turn.

Clients move markers, turn a string into parts and back, and trim what they were answered. What is left when all of that
is taken away identifies a conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_SAME_ROLE = {"developer": "system", "function": "tool"}


@dataclass(frozen=True, slots=True)
class Turn:
    """One message: its role, and the text of its content without white space around it."""

    role: str
    text: str


def conversation(tree: Mapping[str, Any]) -> tuple[Turn, ...]:
    """Return the turns of a chat request, oldest first; of any other body, none."""
    messages = tree.get("messages")
    if not isinstance(messages, list):
        return ()
    return tuple(_turn(message) for message in messages if isinstance(message, dict))


def _turn(message: Mapping[str, Any]) -> Turn:
    role = str(message.get("role"))
    return Turn(_SAME_ROLE.get(role, role), _text(message.get("content")).strip())


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))
