from __future__ import annotations

from typing import Any

import pytest

from inference_protocol.errors import InvalidField
from inference_protocol.structure import StructureKind, asks_for_structure, read_structure

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("tree", "kind", "content"),
    [
        ({"response_format": {"type": "json_object"}}, StructureKind.JSON_SCHEMA, {"type": "object"}),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "s", "strict": True, "schema": SCHEMA},
                }
            },
            StructureKind.JSON_SCHEMA,
            SCHEMA,
        ),
        ({"structured_outputs": {"json": SCHEMA, "regex": None}}, StructureKind.JSON_SCHEMA, SCHEMA),
        ({"structured_outputs": {"json_object": True}}, StructureKind.JSON_SCHEMA, {"type": "object"}),
        ({"structured_outputs": {"regex": "[0-9]+"}}, StructureKind.REGEX, "[0-9]+"),
        ({"structured_outputs": {"choice": ["a", "b"]}}, StructureKind.CHOICE, ("a", "b")),
    ],
)
def test_each_way_to_ask_for_a_form_is_read(tree: dict[str, Any], kind: StructureKind, content: Any) -> None:
    found = read_structure(tree)
    assert asks_for_structure(tree)
    assert found is not None
    assert (found.kind, found.content) == (kind, content)


@pytest.mark.parametrize("tree", [{}, {"response_format": None}, {"response_format": {"type": "text"}}])
def test_text_is_no_form(tree: dict[str, Any]) -> None:
    assert read_structure(tree) is None
    assert not asks_for_structure(tree)


@pytest.mark.parametrize(
    ("tree", "param"),
    [
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA, "strict": "yes"}}},
            "response_format.json_schema.strict",
        ),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs"),
        ({"structured_outputs": {"grammar": "root ::= x"}}, "structured_outputs"),
        ({"structured_outputs": {"regex": ""}}, "structured_outputs.regex"),
        ({"structured_outputs": {"choice": [1]}}, "structured_outputs.choice"),
        ({"structured_outputs": {"json": "text"}}, "structured_outputs.json"),
        ({"guided_regex": "a"}, "guided_regex"),
        ({"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "a"}}, "structured_outputs"),
    ],
)
def test_what_is_written_otherwise_is_refused_and_never_passed_over(tree: dict[str, Any], param: str) -> None:
    assert asks_for_structure(tree)
    with pytest.raises(InvalidField) as caught:
        read_structure(tree)
    assert caught.value.param == param
