"""Tools for models whose chat template has no place for them: told, called and answered in the text of turns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from inference_protocol.errors import InvalidField
from runtime_server.tools import CLOSE, OPEN

_INTRODUCTION = (
    "You can call functions. Each line between the tags describes one, with a JSON schema of its arguments.\n"
    "<tools>\n{tools}\n</tools>\n"
    "To call one, answer with exactly this, filled in; for several calls, write it several times:\n"
    f'{OPEN}\n{{{{"name": "<name>", "arguments": {{{{<arguments>}}}}}}}}\n{CLOSE}\n'
    "What a function returned comes back between <tool_response> tags."
)


def checked_calls(message: Mapping[str, Any], at: int) -> list[dict[str, Any]]:
    """Return the calls of a message in the history, each as a name and its arguments.

    Raises:
        InvalidField: A call is not what an answer of ours would have held.
    """
    calls = message.get("tool_calls") or []
    where = f"messages[{at}].tool_calls"
    if not isinstance(calls, list):
        raise InvalidField(f"`{where}` must be a list.", param=where)
    return [_checked(call, f"{where}[{index}]") for index, call in enumerate(calls)]


def told_in_words(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a conversation that says in its text what tools there are, what was called and what came of it.

    Args:
        messages: Each with a role and a content that is a string.
        tools: As the request wrote them; may be none.

    Raises:
        InvalidField: A call in the history cannot be read.
    """
    told: list[dict[str, Any]] = []
    answers_tools = False
    for at, message in enumerate(messages):
        is_result = message["role"] in ("tool", "function")
        if is_result:
            text = f"<tool_response>\n{message['content']}\n</tool_response>"
            if answers_tools:
                told[-1]["content"] += "\n" + text
            else:
                told.append({"role": "user", "content": text})
        else:
            calls = [f"{OPEN}\n{json.dumps(call, ensure_ascii=False)}\n{CLOSE}" for call in checked_calls(message, at)]
            content = "\n".join([*([message["content"]] if message["content"] else []), *calls])
            told.append({**message, "content": content})
        answers_tools = is_result
    return _introduced(told, tools) if tools else told


def _introduced(messages: list[dict[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    lines = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    words = _INTRODUCTION.format(tools=lines)
    if messages[0]["role"] in ("system", "developer"):
        first, *rest = messages
        return [{**first, "content": f"{first['content']}\n\n{words}"}, *rest]
    return [{"role": "system", "content": words}, *messages]


def _checked(call: Any, where: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InvalidField(f"`{where}` must have a `function` with a `name`.", param=where)
    given = function.get("arguments")
    try:
        arguments = json.loads(given or "{}") if isinstance(given, str | None) else given
    except ValueError:
        arguments = given  # what a model wrote that was cut off is shown to it as it is
    return {"name": function["name"], "arguments": arguments}
