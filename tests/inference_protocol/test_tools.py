from __future__ import annotations

from typing import Any

import pytest

from inference_protocol.errors import InvalidField
from inference_protocol.tools import MAX_TOOLS, read_tools


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


TOOLS = [tool("add", parameters={"type": "object"}), tool("now")]


@pytest.mark.parametrize(
    ("choice", "callable_", "required", "parallel"),
    [
        (None, ["add", "now"], False, True),
        ("auto", ["add", "now"], False, True),
        ("required", ["add", "now"], True, True),
        ({"type": "function", "function": {"name": "now"}}, ["now"], True, False),
    ],
)
def test_the_choice_says_what_may_and_must_be_called(
    choice: Any, callable_: list[str], required: bool, parallel: bool
) -> None:
    use = read_tools({"tools": TOOLS, "tool_choice": choice})
    assert use is not None
    assert [each.name for each in use.offered] == ["add", "now"]
    assert [each.name for each in use.callable] == callable_
    assert (use.required, use.parallel) == (required, parallel)


@pytest.mark.parametrize("tree", [{}, {"tools": []}, {"tools": TOOLS, "tool_choice": "none"}])
def test_without_tools_or_leave_to_call_them_there_is_nothing_to_use(tree: dict[str, Any]) -> None:
    assert read_tools(tree) is None


def test_a_tool_without_parameters_takes_none() -> None:
    use = read_tools({"tools": TOOLS, "parallel_tool_calls": False})
    assert use is not None
    assert use.offered[1].parameters["properties"] == {}
    assert not use.parallel


@pytest.mark.parametrize(
    ("tree", "param"),
    [
        ({"tools": {}}, "tools"),
        ({"tools": [tool(f"t{at}") for at in range(MAX_TOOLS + 1)]}, "tools"),
        ({"tools": [{"type": "custom"}]}, "tools[0]"),
        ({"tools": [tool("a b")]}, "tools[0].function.name"),
        ({"tools": [tool("a", parameters=[])]}, "tools[0].function.parameters"),
        ({"tools": [tool("a"), tool("a")]}, "tools"),
        ({"tools": TOOLS, "tool_choice": "any"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "gone"}}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "parallel_tool_calls": 1}, "parallel_tool_calls"),
    ],
)
def test_what_is_written_wrong_is_refused_by_its_field(tree: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField) as caught:
        read_tools(tree)
    assert caught.value.param == param
