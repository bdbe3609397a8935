"""Tools that a chat request offers, and whether the answer may, must or must not call them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inference_protocol import fields
from inference_protocol.errors import InvalidField

MAX_TOOLS = 128
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_WITHOUT_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class Tool:
    """One function that may be called.

    Attributes:
        parameters: JSON schema of its arguments.
        definition: The tool as the request wrote it, which is what templates show to models.
        field: Where the request holds the schema, for errors.
    """

    name: str
    parameters: Mapping[str, Any]
    definition: Mapping[str, Any]
    field: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """What of the tools an answer may use.

    Attributes:
        offered: All that the model is shown.
        callable: Those that the answer may call, in the same order.
        required: Whether it must call one.
        parallel: Whether it may call several.
    """

    offered: tuple[Tool, ...]
    callable: tuple[Tool, ...]
    required: bool
    parallel: bool


def read_tools(tree: Mapping[str, Any]) -> ToolUse | None:
    """Return what a chat body says of tools; `None` where none may be called.

    With `tool_choice: "none"` the model is not shown the tools either.

    Raises:
        InvalidField: Something is not written as it must be; `param` names it.
    """
    given = tree.get("tools")
    if given is not None and not isinstance(given, list):
        raise InvalidField("`tools` must be a list.", param="tools")
    if given and len(given) > MAX_TOOLS:
        raise InvalidField(f"`tools` may hold {MAX_TOOLS} tools, not {len(given)}.", param="tools")
    offered = tuple(_tool(each, at) for at, each in enumerate(given or ()))
    names = [tool.name for tool in offered]
    if len(set(names)) != len(names):
        raise InvalidField("Two of `tools` have the same name.", param="tools")
    parallel = fields.boolean(tree, "parallel_tool_calls", True)
    choice = tree.get("tool_choice")
    if not offered:
        if choice not in (None, "none", "auto"):
            raise InvalidField("`tool_choice` asks for a call, and `tools` offers none.", param="tool_choice")
        return None
    match choice:
        case None | "auto":
            return ToolUse(offered, offered, False, parallel)
        case "required":
            return ToolUse(offered, offered, True, parallel)
        case "none":
            return None
        case {"type": "function", "function": {"name": str() as name}} if name in names:
            return ToolUse(offered, (offered[names.index(name)],), True, False)
    raise InvalidField(
        "`tool_choice` must be none, auto, required, or name a function that `tools` holds.", param="tool_choice"
    )


def _tool(value: Any, index: int) -> Tool:
    at = f"tools[{index}]"
    if not isinstance(value, dict) or value.get("type") != "function" or not isinstance(value.get("function"), dict):
        raise InvalidField(f"`{at}` must be an object of type `function` with a `function`.", param=at)
    function = value["function"]
    name = function.get("name")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidField(
            f"`{at}.function.name` must be 1 to 64 letters, digits, dots, dashes or underscores.",
            param=f"{at}.function.name",
        )
    where = f"{at}.function.parameters"
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise InvalidField(f"`{where}` must be a JSON schema, as an object.", param=where)
    if parameters and parameters.get("type", "object") != "object":
        raise InvalidField(f"`{where}.type` must be object: arguments have names.", param=f"{where}.type")
    return Tool(name, {"type": "object", **parameters} if parameters else _WITHOUT_PARAMETERS, value, where)
