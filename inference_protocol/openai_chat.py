"""`POST /v1/chat/completions`: from bytes to `InferenceRequest`, refusing what cannot be right and keeping the rest.

Fields we do not know pass untouched. Fields that would choose where the request is sent are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inference_protocol import fields, openai_body
from inference_protocol.capability import further_parameters
from inference_protocol.conversation import ROLES
from inference_protocol.errors import InvalidField
from inference_protocol.json_body import parse_object
from inference_protocol.request import InferenceRequest, Needs, Task
from inference_protocol.sampling import Sampling
from inference_protocol.structure import asks_for_structure

MAX_MESSAGES = 4096


def parse_chat(raw: bytes) -> InferenceRequest:
    """Read a chat completion request.

    Raises:
        MalformedBody: The body cannot be read at all.
        InvalidField: A field has the wrong type or value; `param` names it.
        ForbiddenField: The body names a destination or a credential.
    """
    tree = parse_object(raw)
    openai_body.refuse_forbidden(tree)
    check_messages(tree.get("messages"))
    top_logprobs = fields.integer(tree, "top_logprobs", least=0, most=openai_body.MAX_TOP_LOGPROBS)
    wants_logprobs = fields.boolean(tree, "logprobs") or bool(top_logprobs)
    return InferenceRequest(
        task=Task.CHAT,
        model=fields.string(tree, "model"),
        raw=raw,
        tree=tree,
        stream=fields.boolean(tree, "stream"),
        deferrable=fields.boolean(tree, "deferrable"),
        wants_usage=openai_body.wants_usage(tree),
        output_cap=_output_cap(tree),
        needs=_needs(tree, wants_logprobs),
        sampling=Sampling.from_tree(tree),
        logprobs=(top_logprobs or 0) if wants_logprobs else None,
    )


def check_messages(messages: Any) -> None:
    """Refuse what is no conversation.

    Raises:
        InvalidField: `param` names what is wrong.
    """
    if not isinstance(messages, list) or not messages:
        raise InvalidField("`messages` must be a non-empty list.", param="messages")
    if len(messages) > MAX_MESSAGES:
        raise InvalidField(f"`messages` may hold {MAX_MESSAGES} messages, not {len(messages)}.", param="messages")
    for index, message in enumerate(messages):
        at = f"messages[{index}]"
        if not isinstance(message, dict):
            raise InvalidField(f"`{at}` must be an object.", param=at)
        role = message.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise InvalidField(f"`{at}.role` must be one of {', '.join(sorted(ROLES))}.", param=f"{at}.role")
        _check_content(message.get("content"), at, may_be_missing=role in {"assistant", "function"})


def _check_content(content: Any, at: str, *, may_be_missing: bool) -> None:
    if isinstance(content, str) or (content is None and may_be_missing):
        return
    if not isinstance(content, list):
        raise InvalidField(f"`{at}.content` must be a string or a list of parts.", param=f"{at}.content")
    for index, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            where = f"{at}.content[{index}]"
            raise InvalidField(f"`{where}` must be an object with a `type`.", param=where)
        if part["type"] == "text" and not isinstance(part.get("text"), str):
            where = f"{at}.content[{index}].text"
            raise InvalidField(f"`{where}` must be a string.", param=where)


def _output_cap(tree: Mapping[str, Any]) -> int | None:
    newer = fields.integer(tree, "max_completion_tokens", least=0, most=openai_body.MAX_OUTPUT_TOKENS)
    older = fields.integer(tree, "max_tokens", least=0, most=openai_body.MAX_OUTPUT_TOKENS)
    return newer if newer is not None else older


def _needs(tree: Mapping[str, Any], logprobs: bool) -> Needs:
    tools = tree.get("tools")
    if tools is not None and not isinstance(tools, list):
        raise InvalidField("`tools` must be a list.", param="tools")
    response_format = tree.get("response_format")
    if response_format is not None and not isinstance(response_format, dict):
        raise InvalidField("`response_format` must be an object.", param="response_format")
    kinds = {
        part["type"]
        for message in tree["messages"]
        if isinstance(message.get("content"), list)
        for part in message["content"]
    }
    return Needs(
        tools=(bool(tools) and tree.get("tool_choice") != "none") or any(map(_is_tool_turn, tree["messages"])),
        schema=asks_for_structure(tree),
        images="image_url" in kinds,
        audio="input_audio" in kinds,
        logprobs=logprobs,
        n=openai_body.answers(tree),
        parameters=further_parameters(tree),
    )


def _is_tool_turn(message: Mapping[str, Any]) -> bool:
    return message["role"] in ("tool", "function") or bool(message.get("tool_calls") or message.get("function_call"))
