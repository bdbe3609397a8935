"""The canonical request: what every room behind the front door works on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from inference_protocol.open_inference.call import TensorCall
from inference_protocol.open_inference.text import tensor_text_parts
from inference_protocol.sampling import Sampling
from inference_protocol.text_parts import TextPart, text_parts


class Task(StrEnum):
    """What kind of work is asked for."""

    CHAT = "chat"
    COMPLETION = "completion"
    EMBEDDING = "embedding"
    TENSOR = "tensor"


GENERATES = frozenset({Task.CHAT, Task.COMPLETION})
"""What a model does that generates text."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Capabilities without which a target cannot answer as asked.

    Attributes:
        tools: Tools are offered, or the history holds calls of some.
        parameters: Those of `capability.FURTHER_PARAMETERS` that change the answer, sorted.
    """

    tools: bool = False
    schema: bool = False
    images: bool = False
    audio: bool = False
    logprobs: bool = False
    n: int = 1
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """One request, parsed once.

    Attributes:
        raw: The body as it came, byte for byte; what goes upstream is this with top-level values spliced.
        tree: Its JSON parsed; nobody changes it.
        model: The public model name.
        output_cap: The most output tokens asked for, or `None` where the policy's default applies.
        sampling: How to choose tokens; validated here, used by our runtimes.
        logprobs: How many of the likeliest tokens to tell beside each token of the answer; `None` tells not even its
            own log probability.
        deferrable: Whether it may be answered later, where nobody can now.
        tensors: What a request for tensors asks, and no other has.
    """

    task: Task
    model: str
    raw: bytes
    tree: Mapping[str, Any]
    stream: bool = False
    wants_usage: bool = False
    output_cap: int | None = None
    needs: Needs = field(default_factory=Needs)
    sampling: Sampling = field(default_factory=Sampling)
    logprobs: int | None = None
    deferrable: bool = False
    tensors: TensorCall | None = None

    def text_parts(self) -> Iterator[TextPart]:
        """Yield every string of the body; see `inference_protocol.text_parts`."""
        if self.tensors is not None:
            return tensor_text_parts(self.tree, self.tensors)
        return text_parts(self.tree)
