"""Calls of tools: how models are shown tools, what form a call must have, and how it is read from their text.

Calls are written as Hermes, Qwen and others were trained to write them:

    <tool_call>
    {"name": "add", "arguments": {"a": 1, "b": 2}}
    </tool_call>
"""

OPEN = "<tool_call>"
CLOSE = "</tool_call>"
