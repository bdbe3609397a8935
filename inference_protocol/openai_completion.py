"""`POST /v1/completions`: from bytes to `InferenceRequest`; the text of a prompt is continued as it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inference_protocol import fields, openai_body
from inference_protocol.capability import further_parameters
from inference_protocol.errors import InvalidField
from inference_protocol.json_body import parse_object
from inference_protocol.request import InferenceRequest, Needs, Task
from inference_protocol.sampling import Sampling
from inference_protocol.structure import asks_for_structure

MAX_PROMPTS = 128
MAX_TOKEN_ID = 1 << 31
# OpenAI's own default, which clients count on.
DEFAULT_MAX_TOKENS = 16

Prompt = str | tuple[int, ...]
"""A text, or the ids of its tokens."""


def parse_completion(raw: bytes) -> InferenceRequest:
    """Read a completion request.

    Raises:
        MalformedBody: The body cannot be read at all.
        InvalidField: A field has the wrong type or value, or is one that is not done here; `param` names it.
        ForbiddenField: The body names a destination or a credential.
    """
    tree = parse_object(raw)
    openai_body.refuse_forbidden(tree)
    prompts(tree)
    n = openai_body.answers(tree)
    _refuse_undone(tree, n)
    fields.boolean(tree, "echo")
    logprobs = fields.integer(tree, "logprobs", least=0, most=openai_body.MAX_TOP_LOGPROBS)
    cap = fields.integer(tree, "max_tokens", least=0, most=openai_body.MAX_OUTPUT_TOKENS)
    return InferenceRequest(
        task=Task.COMPLETION,
        model=fields.string(tree, "model"),
        raw=raw,
        tree=tree,
        stream=fields.boolean(tree, "stream"),
        deferrable=fields.boolean(tree, "deferrable"),
        wants_usage=openai_body.wants_usage(tree),
        output_cap=DEFAULT_MAX_TOKENS if cap is None else cap,
        needs=Needs(
            schema=asks_for_structure(tree),
            logprobs=logprobs is not None,
            n=n,
            parameters=further_parameters(tree),
        ),
        sampling=Sampling.from_tree(tree),
        logprobs=logprobs,
    )


def prompts(tree: Mapping[str, Any]) -> tuple[Prompt, ...]:
    """Return the prompts of a body: one text, several, the tokens of one, or those of several.

    Raises:
        InvalidField: There is none, or one of them is empty or neither text nor tokens.
    """
    given = tree.get("prompt")
    if isinstance(given, str):
        return (_text(given, "prompt"),)
    if not isinstance(given, list) or not given:
        raise InvalidField(
            "`prompt` must be a string, or a list of strings, of token ids or of their lists.", param="prompt"
        )
    if all(map(_is_token, given)):
        return (tuple(given),)
    if len(given) > MAX_PROMPTS:
        raise InvalidField(f"`prompt` may hold {MAX_PROMPTS} prompts, not {len(given)}.", param="prompt")
    return tuple(_prompt(each, f"prompt[{at}]") for at, each in enumerate(given))


def _prompt(given: Any, at: str) -> Prompt:
    if isinstance(given, str):
        return _text(given, at)
    if not isinstance(given, list) or not given or not all(map(_is_token, given)):
        raise InvalidField(f"`{at}` must be a string or a list of token ids, and not empty.", param=at)
    return tuple(given)


def _text(given: str, at: str) -> str:
    if not given:
        raise InvalidField(f"`{at}` must not be empty.", param=at)
    return given


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_TOKEN_ID


def _refuse_undone(tree: Mapping[str, Any], n: int) -> None:
    if tree.get("suffix"):
        raise InvalidField("`suffix` is not accepted: no model here fills text in.", param="suffix")
    best_of = fields.integer(tree, "best_of", least=1, most=openai_body.MAX_ANSWERS)
    if best_of not in (None, n):
        raise InvalidField("`best_of` is accepted only where it equals `n`: each answer is returned.", param="best_of")
