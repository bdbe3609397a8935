"""What OpenAI's request bodies have in common, whatever they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inference_protocol import fields
from inference_protocol.errors import ForbiddenField, InvalidField

MAX_OUTPUT_TOKENS = 1 << 20
MAX_ANSWERS = 128
MAX_TOP_LOGPROBS = 20
# A caller who could set these would aim the gateway, and its credentials, at a host of their choice.
FORBIDDEN_FIELDS = frozenset(
    {
        "api_base",
        "api_key",
        "api_version",
        "base_url",
        "custom_host",
        "custom_llm_provider",
        "endpoint_url",
        "extra_body",
        "extra_headers",
        "proxy",
    }
)
# Said to the gateway alone, or set by us for our runtimes: a caller's own salt would let them read another tenant's
# cached prefix.
DROPPED_FIELDS = frozenset({"cache_salt", "deferrable"})


def refuse_forbidden(tree: Mapping[str, Any]) -> None:
    """Refuse a body that names a destination or a credential.

    Raises:
        ForbiddenField: It does.
    """
    for key in tree:
        if key.lower() in FORBIDDEN_FIELDS:
            raise ForbiddenField(f"`{key}` is not accepted: where a request goes is the operator's setting.", param=key)


def wants_usage(tree: Mapping[str, Any]) -> bool:
    """Whether a stream shall end with a chunk of usage.

    Raises:
        InvalidField: `stream_options` is not what it must be.
    """
    options = tree.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict):
        raise InvalidField("`stream_options` must be an object.", param="stream_options")
    return fields.boolean(options, "include_usage", at="stream_options.")


def answers(tree: Mapping[str, Any]) -> int:
    """How many answers are asked for.

    Raises:
        InvalidField: `n` is no number from 1 to `MAX_ANSWERS`.
    """
    return fields.integer(tree, "n", least=1, most=MAX_ANSWERS) or 1
