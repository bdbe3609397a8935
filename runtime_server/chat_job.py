"""From a chat request and its prompt to what the engine is asked for, cut to the model's window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inference_protocol.capability import unmet
from inference_protocol.errors import CapabilityUnavailable, ContextLengthExceeded, InvalidField
from inference_protocol.request import Needs
from inference_protocol.runtime_state import ServedModel


def refuse_unsupported(needs: Needs, model: ServedModel) -> None:
    """Refuse what would otherwise have to be ignored.

    Raises:
        CapabilityUnavailable: The request needs what the model cannot do here; `param` names the field.
    """
    for field, what in unmet(needs, model):
        raise CapabilityUnavailable(f"This runtime cannot do {what}.", param=field)


def output_tokens(prompt_tokens: int, asked: int | None, *, window: int, default: int) -> int:
    """Return how many tokens may be generated.

    More than the window leaves is cut to what it leaves: the answer then ends with `finish_reason: "length"`.

    Args:
        prompt_tokens: Length of the prompt.
        asked: The caller's cap, or `None`.
        window: Most tokens of prompt and answer together.
        default: The cap where the caller gave none.

    Raises:
        ContextLengthExceeded: The window has no room for the prompt and one token more.
    """
    left = window - prompt_tokens
    if left < 0 or (left == 0 and asked != 0):
        raise ContextLengthExceeded(
            f"The prompt has {prompt_tokens} tokens and the model's window {window}, for prompt and answer together.",
            param="messages",
            details={"n_prompt": prompt_tokens, "window": window},
        )
    return min(left, default if asked is None else asked)


def cache_salt(tree: Mapping[str, Any]) -> str:
    """Return the salt within which prompt prefixes may be shared.

    Raises:
        InvalidField: It is no string.
    """
    salt = tree.get("cache_salt")
    if salt is not None and not isinstance(salt, str):
        raise InvalidField("`cache_salt` must be a string.", param="cache_salt")
    return salt or ""
