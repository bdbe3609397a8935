"""What this runtime takes on: requests it can answer as asked, cut to the model's window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inference_protocol.errors import CapabilityUnavailable, ContextLengthExceeded, InvalidField
from inference_protocol.request import InferenceRequest

# Parameters that would change the answer and that no engine here knows yet, with their values that change nothing.
_WITHOUT_EFFECT: Mapping[str, tuple[Any, ...]] = {
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "min_p": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "top_logprobs": (0,),
}


def refuse_unsupported(request: InferenceRequest) -> None:
    """Refuse what would otherwise have to be ignored.

    Raises:
        CapabilityUnavailable: The request needs what this runtime cannot do; `param` names it.
    """
    needs = request.needs
    tree = request.tree
    missing = [
        (needs.tools or any(_is_tool_turn(message) for message in tree["messages"]), "tools", "Tool calls are"),
        (needs.schema, "response_format", "Output formats other than text are"),
        (needs.logprobs, "logprobs", "Log probabilities are"),
        (needs.images, "messages", "Images are"),
        (needs.audio, "messages", "Audio is"),
        (needs.n > 1, "n", "More than one choice is"),
    ]
    missing += [
        (tree.get(name) is not None and tree[name] not in neutral, name, f"`{name}` is")
        for name, neutral in _WITHOUT_EFFECT.items()
    ]
    for needed, param, what in missing:
        if needed:
            raise CapabilityUnavailable(f"{what} not available from this runtime.", param=param)


def _is_tool_turn(message: Mapping[str, Any]) -> bool:
    return message["role"] in ("tool", "function") or bool(message.get("tool_calls") or message.get("function_call"))


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
