"""How the next token is chosen, as OpenAI's API names it plus `top_k`, which every open engine also takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inference_protocol import fields
from inference_protocol.errors import InvalidField

MAX_STOP_STRINGS = 16
MAX_STOP_CHARS = 1024
MAX_SEED = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Sampling:
    """Validated sampling parameters.

    Attributes:
        temperature: 0 is greedy; 0 to 2.
        top_p: Keep the smallest set of tokens whose probability reaches this; 0 (exclusive) to 1.
        top_k: Keep this many likeliest tokens; 0 keeps all.
        seed: Makes sampling repeatable; `None` draws fresh randomness.
        stop: Strings that end the answer and are not part of it.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: tuple[str, ...] = ()

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is always taken."""
        return self.temperature == 0.0 or self.top_k == 1

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
