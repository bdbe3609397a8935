"""A value that is cut in two by the end of a part is found as if it had been written in one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference_protocol.openai_chat import parse_chat
from routing_policies.signals.label import is_spoken
from routing_policies.signals.scanner import build_scanner

SCANNER = build_scanner()


def found(*messages: Any) -> list[tuple[str, str]]:
    body = {"model": "m", "messages": [{"role": "user", "content": content} for content in messages]}
    return [(f.kind, f.path) for f in SCANNER.scan(parse_chat(json.dumps(body).encode()).text_parts()).findings]


def text(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": each} for each in texts]


VALUES = [
    ("card", "4111 1111 1111 1111"),
    ("email", "jane.doe@corp.com"),
    ("aws_access_key_id", "AKIAIOSFODNN7EXAMPLE"),
    ("iban", "DE89370400440532013000"),
    ("github_token", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
]


@pytest.mark.parametrize(("kind", "value"), VALUES)
def test_a_value_is_found_wherever_it_is_cut(kind: str, value: str) -> None:
    for cut in range(1, len(value)):
        first, second = value[:cut], value[cut:]
        assert kind in [k for k, _ in found(f"It is {first}", f"{second} and no more")], (first, second)
        assert kind in [k for k, _ in found(text(f"It is {first}", f"{second} and no more"))], (first, second)


@pytest.mark.parametrize(
    ("kind", "pieces"),
    [
        ("card", ["card 4111 1111 ", "1111 1111"]),
        ("card", ["4111 ", "1111 ", "1111 ", "1111"]),
        ("card", list("4111111111111111")),
        ("email", ["jane", ".roe", " ", "@gm", "ail.com"]),
        ("us_ssn", ["my ssn", "536904399"]),
    ],
)
def test_a_value_is_found_however_many_parts_it_is_cut_into(kind: str, pieces: list[str]) -> None:
    assert kind in [k for k, _ in found(text(*pieces))]


def test_a_cut_value_stands_where_no_token_can_take_its_place() -> None:
    ((_, path),) = found("pay with 4111 1111", "1111 1111 please")
    assert path == "messages[0].content+"
    assert not is_spoken(path)


def test_a_value_that_is_whole_in_its_part_is_found_once() -> None:
    assert found("mail jane.doe@corp.com", "ok then") == [("email", "messages[0].content")]
    assert found("pay", "4111 1111 1111 1111") == [("card", "messages[1].content")]
    assert [path for _, path in found(text("see 5", "ok", "jane@corp.com"))] == ["messages[0].content[2].text"]
    assert [path for _, path in found("my ssn", "SSN 536904399")] == ["messages[1].content"]
    assert found("see 5", "x" * 40 + " 4111111111111111 1") == [("card", "messages[1].content")]
    assert found(text("jane.doe@corp.com", "4111 1111 1111 1111")) == [
        ("email", "messages[0].content[0].text"),
        ("card", "messages[0].content[1].text"),
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Use version 4.18", "0.372 is broken"),
        ("The port is 8080", "and the host is localhost"),
        ("Sum 12 and 30", "42"),
        ("order 1748503543012", "1111"),
        ("see RFC 9110", "section 7.4.12.1"),
        ("What is 4111?", "1111 1111 1111 is no card"),
    ],
)
def test_parts_that_only_meet_make_no_finding(first: str, second: str) -> None:
    assert found(first, second) == []


def test_only_what_is_said_is_read_as_one_text() -> None:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "metadata": {"a": "4111 1111", "b": "1111 1111"},
    }
    assert SCANNER.scan(parse_chat(json.dumps(body).encode()).text_parts()).findings == ()
