"""`POST /v1/completions`: prompts as they stand, without a template, continued."""

from __future__ import annotations

from inference_protocol.errors import CapabilityUnavailable
from inference_protocol.openai_completion import Prompt, parse_completion, prompts
from inference_protocol.request import InferenceRequest
from inference_protocol.runtime_state import ServedModel
from inference_protocol.structure import read_structure
from runtime_server.chat_model import ChatModel
from runtime_server.generation_job import refuse_unknown_tokens
from runtime_server.openai.completion_writer import CompletionWriter, Echo
from runtime_server.openai.envelope import Envelope
from runtime_server.structure.grammar import grammar_of
from runtime_server.task import Plan


class Completion:
    """The task of completions."""

    id_prefix = "cmpl"

    def parse(self, raw: bytes) -> InferenceRequest:  # noqa: D102  # see `Task`
        return parse_completion(raw)

    def plan(  # noqa: D102  # see `Task`
        self, request: InferenceRequest, model: ChatModel, served: ServedModel, *, patience_s: float
    ) -> Plan:
        given = prompts(request.tree)
        ids = tuple(_ids(prompt, model) for prompt in given)
        structure = read_structure(request.tree)
        echoes = bool(request.tree.get("echo"))
        tells_prompt = echoes and request.logprobs is not None
        if tells_prompt and not served.prompt_logprobs:
            raise CapabilityUnavailable("This model's graph does not tell a prompt's log probabilities.", param="echo")

        def writer(envelope: Envelope) -> CompletionWriter:
            found = [Echo(_text(prompt, model), of_it[0]) for prompt, of_it in zip(given, ids, strict=True)]
            return CompletionWriter(
                envelope,
                model.spelling,
                logprobs=request.logprobs is not None,
                echoes=[each for each in found for _ in range(request.needs.n)] if echoes else [],
            )

        grammar = None if structure is None else grammar_of(structure)
        return Plan(ids, "prompt", writer, grammar, tells_prompt)


def _ids(prompt: Prompt, model: ChatModel) -> tuple[int, ...]:
    if isinstance(prompt, str):
        return model.prompts.encode_text(prompt)
    refuse_unknown_tokens(prompt, model.vocabulary, "prompt")
    return prompt


def _text(prompt: Prompt, model: ChatModel) -> str:
    if isinstance(prompt, str):
        return prompt
    return b"".join(model.spelling[token] for token in prompt).decode("utf-8", "replace")
