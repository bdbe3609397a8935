"""`POST /v1/embeddings`: from bytes to `InferenceRequest`, and what an answer to it must hold."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from inference_protocol import fields, openai_body
from inference_protocol.errors import InvalidField
from inference_protocol.json_body import parse_object
from inference_protocol.request import InferenceRequest, Needs, Task

# OpenAI's own bound.
MAX_INPUTS = 2048
MAX_TOKEN_ID = 1 << 31
MAX_DIMENSIONS = 1 << 16

Input = str | tuple[int, ...]
"""A text, or the ids of its tokens."""


class Encoding(StrEnum):
    """How a vector is written: as JSON numbers, or as base64 of its float32 values, little-endian."""

    FLOAT = "float"
    BASE64 = "base64"


def parse_embedding(raw: bytes) -> InferenceRequest:
    """Read an embedding request.

    Raises:
        MalformedBody: The body cannot be read at all.
        InvalidField: A field has the wrong type or value; `param` names it.
        ForbiddenField: The body names a destination or a credential.
    """
    tree = parse_object(raw)
    openai_body.refuse_forbidden(tree)
    inputs(tree)
    encoding(tree)
    dimensions(tree)
    truncates_to(tree)
    if tree.get("stream"):
        raise InvalidField("`stream` is not accepted here: vectors come all at once.", param="stream")
    return InferenceRequest(
        task=Task.EMBEDDING,
        model=fields.string(tree, "model"),
        raw=raw,
        tree=tree,
        deferrable=fields.boolean(tree, "deferrable"),
        output_cap=0,
        needs=Needs(),
    )


def inputs(tree: Mapping[str, Any]) -> tuple[Input, ...]:
    """Return the inputs of a body: one text, several, the tokens of one, or those of several.

    Raises:
        InvalidField: There is none, or one of them is empty or neither text nor tokens.
    """
    given = tree.get("input")
    if isinstance(given, str):
        return (_text(given, "input"),)
    if not isinstance(given, list) or not given:
        raise InvalidField(
            "`input` must be a string, or a list of strings, of token ids or of their lists, and not empty.",
            param="input",
        )
    if all(map(_is_token, given)):
        return (tuple(given),)
    if len(given) > MAX_INPUTS:
        raise InvalidField(f"`input` may hold {MAX_INPUTS} inputs, not {len(given)}.", param="input")
    return tuple(_input(each, f"input[{at}]") for at, each in enumerate(given))


def encoding(tree: Mapping[str, Any]) -> Encoding:
    """Return how vectors are to be written.

    Raises:
        InvalidField: In no way that there is.
    """
    given = tree.get("encoding_format")
    if given is None:
        return Encoding.FLOAT
    try:
        return Encoding(given)
    except ValueError:
        raise InvalidField("`encoding_format` must be float or base64.", param="encoding_format") from None


def dimensions(tree: Mapping[str, Any]) -> int | None:
    """Return how long vectors are to be; `None` leaves that to the model.

    Raises:
        InvalidField: It is no length.
    """
    return fields.integer(tree, "dimensions", least=1, most=MAX_DIMENSIONS)


def truncates_to(tree: Mapping[str, Any]) -> int | None:
    """Return the tokens that a longer input is cut to, by vLLM's `truncate_prompt_tokens`; -1 is the model's window.

    Raises:
        InvalidField: It is neither.
    """
    given = fields.integer(tree, "truncate_prompt_tokens", least=-1, most=MAX_TOKEN_ID)
    if given == 0:
        raise InvalidField(
            "`truncate_prompt_tokens` must be a number of tokens, or -1 for all that the model takes.",
            param="truncate_prompt_tokens",
        )
    return given


def check_answer(answer: Mapping[str, Any], request: InferenceRequest) -> None:
    """Look whether an answer holds a vector for each input.

    Raises:
        ValueError: It does not.
    """
    rows = answer.get("data")
    count = len(inputs(request.tree))
    if not isinstance(rows, list) or len(rows) != count:
        raise ValueError(f"The target's answer does not hold one vector for each of {count} inputs.")
    # Some servers know no base64 and send numbers instead, which OpenAI's client reads too.
    kinds = (str, list) if encoding(request.tree) is Encoding.BASE64 else (list,)
    for row in rows:
        vector = row.get("embedding") if isinstance(row, dict) else None
        if not isinstance(vector, kinds) or not vector:
            raise ValueError("The target's answer holds something else in the place of a vector.")


def _input(given: Any, at: str) -> Input:
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
