"""Log probabilities, as the model has them: before biases, penalties, temperature and any form that is forced."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from runtime_server.choosing.likeliest import largest
from runtime_server.engine import TokenLogprob


def logprob_of(
    logits: NDArray[np.float32], token: int, top: int, scratch: NDArray[np.float32] | None = None
) -> TokenLogprob:
    """Return a token's log probability, and the `top` likeliest tokens with theirs.

    Args:
        logits: Shape `[vocabulary]`.
        token: The one in question.
        top: May be 0.
        scratch: As large as the logits, to be overwritten: fresh memory costs as much as all the arithmetic.
    """
    highest = logits.max()
    weights = np.subtract(logits, highest, out=scratch)
    normalizer = float(highest) + float(np.log(np.exp(weights, out=weights).sum()))
    tops = tuple((int(at), float(logits[at]) - normalizer) for at in largest(logits, top))
    return TokenLogprob(token, float(logits[token]) - normalizer, tops)


def logprobs_of(logits: NDArray[np.float32], tokens: Sequence[int], top: int) -> tuple[TokenLogprob, ...]:
    """Return the log probability of the token that follows each row of logits `[rows, vocabulary]`."""
    scratch = np.empty(logits.shape[-1], np.float32)
    return tuple(logprob_of(row, token, top, scratch) for row, token in zip(logits, tokens, strict=True))
