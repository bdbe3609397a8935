from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from inference_protocol.json_body import parse_object
from inference_protocol.json_strings import replace_strings, string_places
from inference_protocol.text_parts import text_parts

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
bodies = st.dictionaries(st.text(max_size=4), values, max_size=4)
layouts = st.sampled_from([{}, {"indent": 2}, {"ensure_ascii": False}, {"separators": (",", ":")}])


def strings(node: Any) -> list[str]:
    if isinstance(node, str):
        return [node]
    if isinstance(node, dict):
        return [text for value in node.values() for text in strings(value)]
    return [text for value in node for text in strings(value)] if isinstance(node, list) else []


@given(bodies, layouts)
def test_every_string_value_has_its_place_in_document_order(body: dict[str, Any], layout: dict[str, Any]) -> None:
    raw = json.dumps(body, **layout).encode()
    assert [json.loads(raw[place.start : place.end]) for place in string_places(raw)] == strings(body)


def test_a_path_is_the_one_that_the_scanner_names() -> None:
    body = {
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": '{"x":1}'}}]},
        ]
    }
    raw = json.dumps(body).encode()
    found = {place.path: json.loads(raw[place.start : place.end]) for place in string_places(raw)}
    assert {part.path: part.text for part in text_parts(body)}.items() <= found.items()


@given(bodies, layouts, st.text(max_size=8))
def test_replacing_a_string_leaves_every_other_byte(body: dict[str, Any], layout: dict[str, Any], text: str) -> None:
    raw = json.dumps({**body, "last": "x"}, **layout).encode()
    place = list(string_places(raw))[-1]
    replaced = replace_strings(raw, {place: text})
    assert parse_object(replaced) == {**body, "last": text}
    assert replaced.startswith(raw[: place.start])
    assert replaced.endswith(raw[place.end :])
