"""From a request and its prompts to what the engine is asked for, cut to the model's window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from inference_protocol.capability import unmet
from inference_protocol.errors import CapabilityUnavailable, ContextLengthExceeded, InvalidField
from inference_protocol.request import Needs
from inference_protocol.runtime_state import ServedModel
from inference_protocol.sampling import Sampling


def refuse_unsupported(needs: Needs, model: ServedModel) -> None:
    """Refuse what would otherwise have to be ignored.

    Raises:
        CapabilityUnavailable: The request needs what the model cannot do here; `param` names the field.
    """
    for field, what in unmet(needs, model):
        raise CapabilityUnavailable(f"This runtime cannot do {what}.", param=field)


def output_tokens(prompt_tokens: int, asked: int | None, *, window: int, default: int, field: str) -> int:
    """Return how many tokens may be generated.

    More than the window leaves is cut to what it leaves: the answer then ends with `finish_reason: "length"`.

    Args:
        prompt_tokens: Length of the prompt.
        asked: The caller's cap, or `None`.
        window: Most tokens of prompt and answer together.
        default: The cap where the caller gave none.
        field: Where the request holds the prompt.

    Raises:
        ContextLengthExceeded: The window has no room for the prompt and one token more.
    """
    left = window - prompt_tokens
    if left < 0 or (left == 0 and asked != 0):
        raise ContextLengthExceeded(
            f"The prompt has {prompt_tokens} tokens and the model's window {window}, for prompt and answer together.",
            param=field,
            details={"n_prompt": prompt_tokens, "window": window},
        )
    return min(left, default if asked is None else asked)


def sampling_of(sampling: Sampling, index: int) -> Sampling:
    """Return how the answer of an index is sampled: each of several has a seed of its own, the first one the caller's.

    So the first answer is the same however many are asked for.
    """
    return sampling if sampling.seed is None or index == 0 else replace(sampling, seed=sampling.seed + index)


def refuse_unknown_tokens(ids: Iterable[int], vocabulary: int, field: str) -> None:
    """Refuse ids that the model has no token for.

    Raises:
        InvalidField: One of them is.
    """
    if any(token >= vocabulary for token in ids):
        raise InvalidField(f"`{field}` holds an id that is no token: they go from 0 to {vocabulary - 1}.", param=field)


def cache_salt(tree: Mapping[str, Any]) -> str:
    """Return the salt within which prompt prefixes may be shared.

    Raises:
        InvalidField: It is no string.
    """
    salt = tree.get("cache_salt")
    if salt is not None and not isinstance(salt, str):
        raise InvalidField("`cache_salt` must be a string.", param="cache_salt")
    return salt or ""
