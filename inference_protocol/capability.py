"""What a request needs against what a model can do: asked by the gateway before any attempt, and by our runtimes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

from inference_protocol.request import Needs

# Parameters that change an answer and that not every engine knows, with their values that change nothing.
_WITHOUT_EFFECT: Mapping[str, tuple[Any, ...]] = {
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "min_p": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
}
FURTHER_PARAMETERS = frozenset(_WITHOUT_EFFECT)


class Abilities(Protocol):
    """What a model can do where it is served."""

    @property
    def tools(self) -> bool:
        """Tools, and turns of theirs in the history."""
        ...

    @property
    def json_schema(self) -> bool:
        """Output formats other than text."""
        ...

    @property
    def images(self) -> bool:
        """Images in messages."""
        ...

    @property
    def audio(self) -> bool:
        """Audio in messages."""
        ...

    @property
    def logprobs(self) -> bool:
        """Log probabilities of tokens."""
        ...

    @property
    def max_n(self) -> int:
        """Most answers to one request."""
        ...

    @property
    def parameters(self) -> Collection[str]:
        """Which of `FURTHER_PARAMETERS` are known."""
        ...


class Unmet(NamedTuple):
    """A need that is not met: the field of the request that has it, and what it is."""

    field: str
    what: str


def unmet(needs: Needs, can: Abilities) -> list[Unmet]:
    """Return what is needed and cannot be done."""
    # Asked for each target of each request, so nothing is made for a need that there is not.
    found: list[Unmet] = []
    if needs.tools and not can.tools:
        found.append(Unmet("tools", "tools"))
    if needs.schema and not can.json_schema:
        found.append(Unmet("response_format", "a JSON schema"))
    if needs.images and not can.images:
        found.append(Unmet("messages", "images"))
    if needs.audio and not can.audio:
        found.append(Unmet("messages", "audio"))
    if needs.logprobs and not can.logprobs:
        found.append(Unmet("logprobs", "logprobs"))
    if needs.n > can.max_n:
        found.append(Unmet("n", "several answers"))
    if needs.parameters:
        found += [Unmet(name, f"`{name}`") for name in needs.parameters if name not in can.parameters]
    return found


def further_parameters(tree: Mapping[str, Any]) -> tuple[str, ...]:
    """Return which of `FURTHER_PARAMETERS` a body sets to a value that has an effect, sorted."""
    return tuple(
        name for name, idle in _WITHOUT_EFFECT.items() if tree.get(name) is not None and tree[name] not in idle
    )
