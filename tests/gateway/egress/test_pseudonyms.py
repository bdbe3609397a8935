from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.egress import pseudonyms
from gateway.egress.pseudonyms import Pseudonymized, Pseudonymizer
from gateway.state.keys import Keys
from inference_protocol.errors import EgressRefused
from inference_protocol.openai_chat import parse_chat
from routing_policies.signals.label import NOTED, ScanResult
from routing_policies.signals.scanner import build_scanner

SCANNER = build_scanner()
PSEUDONYMIZER = Pseudonymizer(SCANNER, Keys(b"k" * 32))
EMAIL, CARD = "jane.doe@corp.com", "4111 1111 1111 1111"
TOKEN = re.compile(r"[A-Z]+_[A-Z2-7]{8}")


def chat(*contents: Any, **fields: Any) -> bytes:
    roles = ["user", "assistant"]
    messages = [{"role": roles[number % 2], "content": content} for number, content in enumerate(contents)]
    return json.dumps({"model": "m", "messages": messages, **fields}, ensure_ascii=False).encode()


def replaced(raw: bytes, *tags: str, tenant: str = "acme") -> Pseudonymized:
    return PSEUDONYMIZER.replace(parse_chat(raw), tags or ("pii",), tenant)


def content(found: Pseudonymized, index: int = 0) -> str:
    return found.request.tree["messages"][index]["content"]


def test_a_value_becomes_a_token_of_its_kind_and_can_be_put_back() -> None:
    found = replaced(chat(f"Write to {EMAIL}, please."))
    (token,) = found.originals
    assert re.fullmatch(r"EMAIL_[A-Z2-7]{8}", token)
    assert content(found) == f"Write to {token}, please."
    assert found.originals == {token: EMAIL}
    assert EMAIL.encode() not in found.request.raw


def test_one_value_has_one_token_and_two_values_have_two() -> None:
    found = replaced(chat(f"{EMAIL} and again {EMAIL}, but not john@corp.com"))
    first, second, third = TOKEN.findall(content(found))
    assert first == second != third


def test_only_the_tags_asked_for_are_replaced() -> None:
    found = replaced(chat(f"{EMAIL} pays with {CARD}"), "pii")
    assert CARD in content(found)
    assert EMAIL not in content(found)


def test_tokens_are_the_same_in_every_turn_and_in_every_worker() -> None:
    first = replaced(chat(f"I am {EMAIL}."))
    later = Pseudonymizer(SCANNER, Keys(b"k" * 32)).replace(
        parse_chat(chat(f"I am {EMAIL}.", f"Hello {EMAIL}", "and john@corp.com")), ("pii",), "acme"
    )
    assert first.originals.items() <= later.originals.items()


def test_instructions_that_change_from_turn_to_turn_do_not_change_tokens() -> None:
    def with_instructions(text: str) -> bytes:
        messages = [{"role": "system", "content": text}, {"role": "user", "content": EMAIL}]
        return json.dumps({"model": "m", "messages": messages}).encode()

    assert replaced(with_instructions("It is Monday.")).originals == replaced(with_instructions("Tuesday.")).originals


def test_another_conversation_or_tenant_has_other_tokens() -> None:
    tokens = [
        *replaced(chat(f"I am {EMAIL}.")).originals,
        *replaced(chat(f"You are {EMAIL}.")).originals,
        *replaced(chat(f"I am {EMAIL}."), tenant="other").originals,
    ]
    assert len(set(tokens)) == 3


def test_every_byte_outside_the_values_stays() -> None:
    raw = (
        '{ "model":"m",\n "messages" : [ {"content":"caf\\u00e9 ' + EMAIL + ' é 😀", "role":"user"} ] , "x": 1.50e1 }'
    ).encode()
    found = replaced(raw)
    (token,) = found.originals
    before, after = found.request.raw.split(token.encode())
    assert raw.startswith(before.split(b"caf")[0])
    assert json.loads(before.split(b'"content":')[1] + b'"') == "café "
    assert raw.endswith(after.split("😀".encode())[1])


@pytest.mark.parametrize("spelling", ["jane\u200b.doe@corp.com", "ｊane.doe@corp.com", "jane.doe＠corp.com"])
def test_a_value_spelled_to_hide_is_replaced_as_it_is_spelled(spelling: str) -> None:
    found = replaced(chat(f"Write to {spelling}!"))
    (token,) = found.originals
    assert content(found) == f"Write to {token}!"
    assert found.originals[token] == spelling


def test_a_value_in_arguments_has_the_token_that_it_has_in_text() -> None:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "mail", "arguments": '{"to":"jane.doe\\u0040corp.com"}'},
    }
    messages = [{"role": "user", "content": EMAIL}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    found = replaced(json.dumps({"model": "m", "messages": messages}).encode())
    (token,) = found.originals
    function = found.request.tree["messages"][1]["tool_calls"][0]["function"]
    assert function == {"name": "mail", "arguments": f'{{"to":"{token}"}}'}


def test_a_request_that_holds_a_token_gets_other_tokens() -> None:
    plain = replaced(chat(f"I am {EMAIL}.", "Hello"))
    (token,) = plain.originals
    for look_alike in (token, token.lower(), f"x{token}y"):
        found = replaced(chat(f"I am {EMAIL}.", "Hello", f"What is {look_alike}?"))
        assert token not in found.originals
        assert look_alike in content(found, 2)


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"owner": EMAIL}},
        {"metadata": {EMAIL: "owner"}},
        {"user": EMAIL},
        {"tools": [{"type": "function", "function": {"name": "f", "description": f"Mails {EMAIL}."}}]},
        {"brand_new": [EMAIL]},
    ],
)
def test_a_value_where_no_token_can_stand_refuses_the_target(fields: dict[str, Any]) -> None:
    with pytest.raises(EgressRefused, match="still holds email"):
        replaced(chat("hello", **fields))


def test_a_refusal_does_not_hold_the_value() -> None:
    with pytest.raises(EgressRefused) as caught:
        replaced(chat("hello", user=EMAIL))
    assert EMAIL not in str(caught.value)


def test_a_number_that_is_a_value_refuses_the_target() -> None:
    with pytest.raises(EgressRefused, match="still holds card"):
        replaced(chat([{"type": "text", "text": "pay"}, {"type": "x", "text": 4111111111111111}]), "pci")


def test_a_scan_that_finds_less_than_it_did_refuses_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blind:
        def scan(self, _parts: object) -> ScanResult:
            return ScanResult()

    class Sighted(Blind):
        calls = 0

        def scan(self, parts: Any) -> ScanResult:
            Sighted.calls += 1
            return ScanResult() if Sighted.calls == 1 else SCANNER.scan(parts)

    with pytest.raises(EgressRefused, match="still holds email"):
        Pseudonymizer(Sighted(), Keys(b"k" * 32)).replace(parse_chat(chat(EMAIL)), ("pii",), "t")  # type: ignore[arg-type]  # a stand-in


def test_a_token_that_reads_as_a_secrets_value_does_not_count_as_one() -> None:
    found = replaced(chat("the password is Tr0ub4dor&3"), "secret")
    (token,) = found.originals
    assert content(found) == f"the password is {token}"


pieces = st.lists(
    st.sampled_from([EMAIL, CARD, "+49 30 1234 5678", "hello ", "é😀", "\n", '"quoted" ', "\\", "john@corp.com"])
    | st.text(max_size=5),
    max_size=6,
)


@given(pieces, st.booleans())
def test_putting_the_values_back_gives_the_text_that_was_sent(some: list[str], as_parts: bool) -> None:
    text = " ".join(some)
    try:
        found = replaced(chat([{"type": "text", "text": text}] if as_parts else text), "pii", "pci")
    except EgressRefused:
        return  # numbers that run into each other: what is left of one may be a number again
    said = content(found)
    result = said[0]["text"] if as_parts else said
    for token, value in found.originals.items():
        result = result.replace(token, value)
    assert result == text
    left = SCANNER.scan(found.request.text_parts()).findings
    assert not [f for f in left if f.tag in {"pii", "pci"}]


def test_no_kind_gives_a_token_that_is_found_to_be_something() -> None:
    from tests.routing_policies.signals.test_scanner import MUST_BE_FOUND

    for kind, tag, text, _ in MUST_BE_FOUND:
        found = replaced(chat(text), "pii", "pci", "phi", "secret")
        assert bool(found.originals) is (tag not in NOTED), (kind, tag)


def test_tokens_that_collide_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    real = pseudonyms._token

    def first(key: Any, attempt: int, *value: Any) -> Any:
        return real(key, attempt, *value) if attempt else "EMAIL_AAAAAAAA"

    monkeypatch.setattr(pseudonyms, "_token", first)
    assert len(replaced(chat(f"{EMAIL} john@corp.com")).originals) == 2
