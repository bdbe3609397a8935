"""The form of an answer that may call tools: text up to a call, and calls whose arguments each tool's schema allows."""

from __future__ import annotations

from inference_protocol.tools import Tool, ToolUse
from runtime_server.structure.grammar import Grammar, json_value, literal
from runtime_server.tools import CLOSE, OPEN

# A model that goes on calling for ever would do so until its last token.
_MOST_CALLS = 16


def grammar_of_calls(use: ToolUse) -> Grammar:
    """Return the grammar of an answer under a request's tools."""
    more = f" ({literal(chr(10) + OPEN)} call){{0,{_MOST_CALLS - 1}}}" if use.parallel else ""
    calls = f"call{more}"
    rules = [f"start: {literal(OPEN)} {calls}"]
    if not use.required:
        # What is lazy ends at the first opening mark, so that no text passes over one.
        rules = [f"start: TEXT | opened {calls}", f"opened[lazy]: TEXT {literal(OPEN)}", r"TEXT: /(.|\n)*/"]
    rules.append("call: " + " | ".join(f"call_{at}" for at in range(len(use.callable))))
    rules += [_call(at, tool) for at, tool in enumerate(use.callable)]
    return Grammar("\n".join(rules), use.callable[0].field if len(use.callable) == 1 else "tools")


def _call(at: int, tool: Tool) -> str:
    head = f'\n{{"name": "{tool.name}", "arguments": '
    return f"call_{at}: {literal(head)} arguments_{at} {literal('}' + chr(10) + CLOSE)}\n" + (
        f"arguments_{at}: {json_value(tool.parameters)}"
    )
