from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_protocol.errors import MalformedBody
from inference_protocol.json_body import MAX_DEPTH, MAX_VALUES, parse_object, splice

scalars = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=12)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
)
spaces = st.text(alphabet=" \t\r\n", max_size=3)


@st.composite
def objects(draw: st.DrawFn) -> tuple[dict[str, Any], bytes]:
    """An object with a spelling of its own: any white space, escapes, order."""
    tree = draw(
        st.dictionaries(st.sampled_from(["model", "stream", 'a"b', "é", "{", "", ","]) | st.text(max_size=4), trees)
    )
    ascii_only = draw(st.booleans())

    def space() -> str:
        return draw(spaces)

    members = (
        f"{space()}{json.dumps(key, ensure_ascii=ascii_only)}{space()}:{space()}"
        f"{json.dumps(value, ensure_ascii=ascii_only)}{space()}"
        for key, value in tree.items()
    )
    text = f"{space()}{{{','.join(members) or space()}}}{space()}"
    return tree, text.encode("utf-8", "surrogatepass")


@given(objects(), st.dictionaries(st.sampled_from(["model", "cache_salt", 'a"b', "{"]), st.none() | trees, max_size=4))
def test_splicing_equals_changing_the_parsed_object(
    spelled: tuple[dict[str, Any], bytes], changes: dict[str, Any]
) -> None:
    tree, raw = spelled
    remove = [key for index, key in enumerate(tree) if index % 2]
    values = {key: json.dumps(value).encode() for key, value in changes.items()} | dict.fromkeys(remove)

    out = splice(raw, parse_object(raw), values)

    expected = {key: value for key, value in (tree | changes).items() if key not in remove}
    assert json.loads(out.decode("utf-8", "surrogatepass")) == expected


def test_splice_keeps_every_byte_outside_the_values_it_replaces() -> None:
    raw = b' {"a" : 1.50 ,\n  "m\\u006fdel": "x \\" } , \\\\" , "z":[ {"model":1} ]}\n'
    assert (
        splice(raw, parse_object(raw), {"model": b'"y"'})
        == b' {"a" : 1.50 ,\n  "m\\u006fdel": "y" , "z":[ {"model":1} ]}\n'
    )


def test_splice_without_changes_returns_the_body_itself() -> None:
    raw = b'{"model":"x"}'
    assert splice(raw, parse_object(raw), {}) is raw


@pytest.mark.parametrize(
    ("raw", "values", "expected"),
    [
        (b"{}", {"a": b"1"}, b'{"a":1}'),
        (b"{ }", {"a": b"1", "b": b"2"}, b'{"a":1,"b":2 }'),
        (b'{"a":1,"b":2}', {"a": None, "b": None}, b"{}"),
        (b'{"a":1, "b":2}', {"a": None}, b'{"b":2}'),
        (b'{"a":1, "b":2 , "c":3}', {"c": None, "b": None}, b'{"a":1}'),
        (b'{"a":1,"b":2}', {"b": None, "c": b"3"}, b'{"a":1,"c":3}'),
        (b'{"a":1}', {"b": None}, b'{"a":1}'),
    ],
)
def test_splice_adds_and_removes_members(raw: bytes, values: dict[str, bytes | None], expected: bytes) -> None:
    assert splice(raw, parse_object(raw), values) == expected


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"\xff{}", "not UTF-8: byte 0"),
        (b"{", "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"[1]", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
        (b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}", "nested deeper"),
        (b'{"a":' + b"[" * 50_000, "nested deeper"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused_with_its_reason(raw: bytes, says: str) -> None:
    with pytest.raises(MalformedBody, match=says):
        parse_object(raw)


def test_nesting_up_to_the_limit_is_accepted() -> None:
    assert parse_object(b'{"a":' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b"}")


@pytest.mark.parametrize("item", [b"[]", b'""', b"1000000", b'{"a":""}', b'",[{"'])
def test_more_values_than_the_bound_are_refused_before_they_are_built(item: bytes) -> None:
    def body(items: int) -> bytes:
        return b'{"a":[' + b",".join([item] * items) + b"]}"

    each = 2 if item.startswith((b"{", b"[")) else 1
    assert parse_object(body((MAX_VALUES - 2) // each))  # the object and the list are values too
    with pytest.raises(MalformedBody, match="more than 100000 JSON values"):
        parse_object(body((MAX_VALUES - 2) // each + 1))


def test_marks_inside_a_string_are_no_values() -> None:
    assert parse_object(json.dumps({"a": '\\",[{' * MAX_VALUES}).encode())


@pytest.mark.parametrize(
    "raw", [b'{"a":"' + b"," * 300_000, b'{"a":"' + b',\\"' * 300_000, b'"' * 300_001 + b"," * MAX_VALUES]
)
def test_what_is_no_json_is_refused_as_such_however_many_marks_it_holds(raw: bytes) -> None:
    with pytest.raises(MalformedBody, match="not JSON"):
        parse_object(raw)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (b"6304273733981234567.0", 6304273733981234567),
        (b"6.304273733981234567e18", 6304273733981234567),
        (b"4.111111111111111e15", 4111111111111111.0),
        (b"1e300", 1e300),
        (b"-0.25", -0.25),
    ],
)
def test_a_whole_number_keeps_its_digits_however_it_is_written(literal: bytes, value: float) -> None:
    read = parse_object(b'{"a":' + literal + b"}")["a"]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize("raw", [b'{"a":1,"a":2}', b'{"a":1,"\\u0061":1}', b'{"x":[{"a":1,"a":1}]}'])
def test_a_key_that_stands_twice_is_refused_and_named(raw: bytes) -> None:
    with pytest.raises(MalformedBody, match="`a` stands twice") as caught:
        parse_object(raw)
    assert caught.value.param == "a"


def test_a_key_that_is_no_plain_name_is_not_repeated_in_the_refusal() -> None:
    with pytest.raises(MalformedBody) as caught:
        parse_object(b'{"jane@corp.com":1,"jane@corp.com":2}')
    assert "jane" not in caught.value.message
    assert caught.value.param is None
