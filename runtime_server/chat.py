"""`POST /v1/chat/completions`: the assistant's next message, as text, in a form, or as calls of tools."""

from __future__ import annotations

from inference_protocol.errors import InvalidField
from inference_protocol.openai_chat import parse_chat
from inference_protocol.request import InferenceRequest
from inference_protocol.runtime_state import ServedModel
from inference_protocol.structure import read_structure
from inference_protocol.tools import read_tools
from runtime_server.chat_model import ChatModel
from runtime_server.openai.chat_writer import ChatWriter
from runtime_server.openai.envelope import Envelope
from runtime_server.structure.grammar import grammar_of
from runtime_server.task import Plan
from runtime_server.tools.call_grammar import grammar_of_calls
from runtime_server.tools.call_reader import CallReader


class Chat:
    """The task of chat completions."""

    id_prefix = "chatcmpl"

    def parse(self, raw: bytes) -> InferenceRequest:  # noqa: D102  # see `Task`
        return parse_chat(raw)

    def plan(  # noqa: D102  # see `Task`
        self, request: InferenceRequest, model: ChatModel, served: ServedModel, *, patience_s: float
    ) -> Plan:
        structure, tools = read_structure(request.tree), read_tools(request.tree)
        if structure is not None and tools is not None:
            raise InvalidField(
                f"`{structure.field}` and `tools` are not done together; with `tool_choice: none` it is.",
                param=structure.field,
            )
        grammar = None if structure is None else grammar_of(structure)
        if tools is not None:
            grammar = grammar_of_calls(tools)

        def writer(envelope: Envelope) -> ChatWriter:
            return ChatWriter(
                envelope,
                model.spelling,
                logprobs=request.logprobs is not None,
                call_reader=None if tools is None else CallReader,
            )

        prompt = model.prompts.encode(
            request.tree["messages"], () if tools is None else tools.offered, patience_s=patience_s
        )
        return Plan((prompt,), "messages", writer, grammar)
