"""How the next token is chosen: OpenAI's parameters, and `top_k`, `min_p` and `repetition_penalty` of open engines.

They act in this order: bias, penalties, temperature, `min_p`, `top_k`, `top_p`. A repetition penalty counts tokens of
prompt and answer (arXiv:1909.05858, as transformers has it); presence and frequency penalties those of the answer alone
(OpenAI's API reference).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inference_protocol import fields
from inference_protocol.errors import InvalidField

MAX_STOP_STRINGS = 16
MAX_STOP_CHARS = 1024
MAX_SEED = (1 << 63) - 1
MAX_BIASES = 1024
_TOKEN_ID = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Sampling:
    """Validated sampling parameters.

    Attributes:
        temperature: 0 is greedy; 0 to 2.
        top_p: Keep the smallest set of tokens whose probability reaches this; 0 (exclusive) to 1.
        top_k: Keep this many likeliest tokens; 0 keeps all.
        min_p: Drop tokens less likely than this share of the likeliest one's probability; 0 to 1.
        repetition_penalty: Divides the positive logits, and multiplies the negative ones, of tokens that came before;
            0.01 to 2.
        presence_penalty: Taken off the logits of tokens that the answer holds; -2 to 2.
        frequency_penalty: The same, for each time that the answer holds them; -2 to 2.
        logit_bias: Token id and what is added to its logit, -100 to 100.
        seed: Makes sampling repeatable; `None` draws fresh randomness.
        stop: Strings that end the answer and are not part of it.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None
    stop: tuple[str, ...] = ()

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is always taken."""
        return self.temperature == 0.0 or self.top_k == 1

    @property
    def has_penalties(self) -> bool:
        """Whether what came before changes what comes next."""
        return self.repetition_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Sampling:
        """Read the parameters from a parsed body.

        Raises:
            InvalidField: A parameter has the wrong type or lies out of range.
        """
        top_p = fields.number(tree, "top_p", 1.0, least=0.0, most=1.0)
        if top_p == 0.0:
            top_p = 1e-9  # OpenAI accepts 0 and means "only the likeliest token"
        return cls(
            temperature=fields.number(tree, "temperature", 1.0, least=0.0, most=2.0),
            top_p=top_p,
            top_k=max(fields.integer(tree, "top_k", least=-1, most=1 << 20) or 0, 0),  # vLLM's clients send -1 for all
            min_p=fields.number(tree, "min_p", 0.0, least=0.0, most=1.0),
            repetition_penalty=fields.number(tree, "repetition_penalty", 1.0, least=0.01, most=2.0),
            presence_penalty=fields.number(tree, "presence_penalty", 0.0, least=-2.0, most=2.0),
            frequency_penalty=fields.number(tree, "frequency_penalty", 0.0, least=-2.0, most=2.0),
            logit_bias=_logit_bias(tree.get("logit_bias")),
            seed=fields.integer(tree, "seed", least=-MAX_SEED - 1, most=MAX_SEED),
            stop=_stop(tree.get("stop")),
        )


def _stop(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or len(found) > MAX_STOP_STRINGS:
        raise InvalidField(f"`stop` must be a string or a list of at most {MAX_STOP_STRINGS} strings.", param="stop")
    for index, item in enumerate(found):
        if not isinstance(item, str) or not item or len(item) > MAX_STOP_CHARS:
            raise InvalidField(
                f"`stop[{index}]` must be a string of 1 to {MAX_STOP_CHARS} characters.", param=f"stop[{index}]"
            )
    return tuple(found)


def _logit_bias(value: Any) -> tuple[tuple[int, float], ...]:
    if value is None:
        return ()
    if not isinstance(value, dict) or len(value) > MAX_BIASES:
        raise InvalidField(
            f"`logit_bias` must be an object of at most {MAX_BIASES} token ids and their biases.", param="logit_bias"
        )
    for token, bias in value.items():
        if _TOKEN_ID.fullmatch(token) is None:
            raise InvalidField("The keys of `logit_bias` must be token ids.", param="logit_bias")
        if isinstance(bias, bool) or not isinstance(bias, (int, float)) or not -100 <= bias <= 100:
            at = f"logit_bias.{token}"
            raise InvalidField(f"`{at}` must be a number from -100 to 100.", param=at)
    return tuple((int(token), float(bias)) for token, bias in value.items() if bias)
