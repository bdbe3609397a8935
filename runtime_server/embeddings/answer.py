"""Vectors as OpenAI's API writes them."""

from __future__ import annotations

import base64
from typing import Any

import orjson

from inference_protocol.openai_embedding import Encoding
from runtime_server.embeddings.service import Embedded


def answer_body(embedded: Embedded, model: str, encoding: Encoding, tokens: int) -> bytes:
    """Return the body of an answer.

    Args:
        embedded: The vectors, and what they took.
        model: The public name.
        encoding: How each vector is written.
        tokens: Of all inputs.
    """
    vectors = embedded.vectors
    written: list[Any] = (
        list(vectors)
        if encoding is Encoding.FLOAT
        else [base64.b64encode(row.tobytes()).decode("ascii") for row in vectors.astype("<f4", copy=False)]
    )
    answer = {
        "object": "list",
        "data": [{"object": "embedding", "index": at, "embedding": each} for at, each in enumerate(written)],
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "timings": embedded.timings.to_wire(),
    }
    return orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)
