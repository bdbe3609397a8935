"""What one kind of request asks for, and how it is answered: the part in which endpoints that generate differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from inference_protocol.request import InferenceRequest
from inference_protocol.runtime_state import ServedModel
from runtime_server.chat_model import ChatModel
from runtime_server.openai.envelope import AnswerWriter, Envelope
from runtime_server.structure.grammar import Grammar


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be generated for a request.

    Attributes:
        prompts: Token ids of each, not empty.
        field: Where the request holds them.
        writer: Makes what writes the answer.
        grammar: The form that each answer must have, or `None`.
        prompt_logprobs: Whether the prompts' own log probabilities are wanted.
    """

    prompts: tuple[tuple[int, ...], ...]
    field: str
    writer: Callable[[Envelope], AnswerWriter]
    grammar: Grammar | None = None
    prompt_logprobs: bool = False


class Task(Protocol):
    """One kind of request. Its methods may be called from any thread."""

    id_prefix: str

    def parse(self, raw: bytes) -> InferenceRequest:
        """Read a body.

        Raises:
            InvalidRequest: It is wrong.
        """
        ...

    def plan(self, request: InferenceRequest, model: ChatModel, served: ServedModel, *, patience_s: float) -> Plan:
        """Return what is to be generated; the model's own code has `patience_s` for its part in that.

        Raises:
            InvalidRequest: It cannot be; `param` names the field.
            TemplateTooSlow: The model's own code took longer.
        """
        ...
