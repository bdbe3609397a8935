from __future__ import annotations

import time

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from inference_protocol.openai_chat import parse_chat
from inference_protocol.text_parts import TextPart, Uninspectable, UninspectableCause
from routing_policies.signals.detector import Candidate, Detector
from routing_policies.signals.identifiers import IDENTIFIERS
from routing_policies.signals.label import NOTED
from routing_policies.signals.normalize import folding_table
from routing_policies.signals.scanner import Scanner, build_joined_scanner, build_scanner
from routing_policies.signals.secrets import SECRETS
from tests.routing_policies.signals.harmless_prompts import HARMLESS_PROMPTS

SCANNER = build_scanner()
JOINED_SCANNER = build_joined_scanner()
CLEAN = st.text(alphabet="abc xyz,\n中é😀", max_size=30)


def found(text: str, field: str | None = None) -> list[tuple[str, str]]:
    result = SCANNER.scan([TextPart("prompt", None, text, field)])
    assert result.causes == frozenset()
    return [(finding.kind, text[finding.start : finding.end]) for finding in result.findings]


MUST_BE_FOUND = [
    ("password", "secret", "the passcode of our front door is Tk4!wPz8.", "Tk4!wPz8."),
    ("password", "secret", "My PIN is 'q7#Rv1' and was 'x'", "q7#Rv1"),
    ("password", "secret", "The root password on that host is: Zx8*vortex", "Zx8*vortex"),
    ("api_key", "secret", "take the key wq7zkvtrbm2xnhdsgfplc9 for that", "wq7zkvtrbm2xnhdsgfplc9"),
    ("api_key", "secret", "Key: hTz4pQvXn8RbLwKcMd2Gs", "hTz4pQvXn8RbLwKcMd2Gs"),
    (
        "encoded_secret",
        "secret",
        "see ZnRwX3VzZXI9dGlkZXMKZnRwX3Bhc3N3b3JkPVdxNyFyVDJ4CnVybD1mdHA6Ly9maWxlcy5leGFtcGxlCg== there",
        "ZnRwX3VzZXI9dGlkZXMKZnRwX3Bhc3N3b3JkPVdxNyFyVDJ4CnVybD1mdHA6Ly9maWxlcy5leGFtcGxlCg==",
    ),
    (
        "encoded_secret",
        "secret",
        "say?\nZnRwX3VzZXI9dGlkZXMK\nZnRwX3Bhc3N3b3JkPVdx\nNyFyVDJ4CnVybD1mdHA6\nLy9maWxlcy5leGFtcGxl\nCg==\nok",
        "ZnRwX3VzZXI9dGlkZXMK\nZnRwX3Bhc3N3b3JkPVdx\nNyFyVDJ4CnVybD1mdHA6\nLy9maWxlcy5leGFtcGxl\nCg==",
    ),
    # Cards: networks, lengths, spellings.
    ("card", "pci", "my card 4111111111111111.", "4111111111111111"),
    ("card", "pci", "4012 8888 8888 1881 exp 12/27", "4012 8888 8888 1881"),
    ("card", "pci", "paid in 2024 5555-5555-5555-4444 12 times", "5555-5555-5555-4444"),
    ("card", "pci", "amex 3714 496353 98431", "3714 496353 98431"),
    ("card", "pci", "6011000990139424", "6011000990139424"),
    ("card", "pci", "maestro card number 630427373398", "630427373398"),
    ("card", "pci", "卡号4111111111111111，请核对", "4111111111111111"),
    # Accounts and people.
    ("iban", "pii", "IBAN DE89 3704 0044 0532 0130 00 BIC COBADEFF", "DE89 3704 0044 0532 0130 00"),
    ("iban", "pii", "my iban is gb82west12345698765432", "gb82west12345698765432"),
    ("iban", "pii", "NO9386011117947 is short", "NO9386011117947"),
    ("us_ssn", "pii", "My SSN is 123-45-6789", "123-45-6789"),
    ("us_ssn", "pii", "SSN 078-05-1120", "078-05-1120"),
    ("us_ssn", "pii", "social security number: 536904399", "536904399"),
    ("us_ssn", "pii", "employee 536-90-4399 joined", "536-90-4399"),
    ("email", "pii", "write to <jane.doe+spam@mail.corp.co.uk>.", "jane.doe+spam@mail.corp.co.uk"),
    ("email", "pii", "https://x.org/?to=jane%40corp.com&b=1", "jane%40corp.com"),
    ("email", "pii", "jane@corp.rs:hunter2", "jane@corp.rs"),
    ("ip_address", "pii", "client_ip=|86.121.97.248 said", "86.121.97.248"),
    ("ip_address", "pii", "http://86.121.97.248:8080/x", "86.121.97.248"),
    ("ip_address", "pii", "from 2a00:1450:4001:81b::200e port 443", "2a00:1450:4001:81b::200e"),
    ("ip_address", "pii", "6e40:4041:c617:e898:c11:40d2:c669:2eb4", "6e40:4041:c617:e898:c11:40d2:c669:2eb4"),
    ("phone", "pii", "call +49 30 1234 5678, thanks", "+49 30 1234 5678"),
    ("phone", "pii", "office +46 (0)8 928 571 38", "+46 (0)8 928 571 38"),
    ("phone", "pii", "+1-984-282-0190", "+1-984-282-0190"),
    ("phone", "pii", "reach me on (579) 888-3058", "(579) 888-3058"),
    ("phone", "pii", "Phone:\n467 3395\n", "467 3395"),
    ("phone", "pii", "teléfono: 912 345 678", "912 345 678"),
    ("domain", "domain", "My website is http://www.Scrapbook-Insider.com.pt/", "http://www.Scrapbook-Insider.com.pt"),
    ("domain", "domain", "see www.corp.rs, please", "www.corp.rs"),
    ("date_of_birth", "pii", "DOB: 1985-03-12", "1985-03-12"),
    ("date_of_birth", "pii", "She was born on 2/8/1935", "2/8/1935"),
    ("date_of_birth", "pii", "geboren am 3. März 1971", "3. März 1971"),
    ("date_of_birth", "pii", "née le 14 juillet 1989", "14 juillet 1989"),
    # Health.
    ("medical_record_number", "phi", "MRN: 00123456", "00123456"),
    ("diagnosis_code", "phi", "diagnosed last week, E11.9, by her doctor", "E11.9"),
    ("clinical_measure", "phi", "Patient J.M., 54, HbA1c 9.2", "Patient J.M., 54, HbA1c 9"),
    # Secrets.
    ("aws_access_key_id", "secret", "AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    (
        "aws_secret_access_key",
        "secret",
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ),
    (
        "github_token",
        "secret",
        "my key is ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    ),
    ("gitlab_token", "secret", "glpat-AAAAAAAAAAAAAAAAAAAA", "glpat-AAAAAAAAAAAAAAAAAAAA"),
    ("gitlab_token", "secret", "glpat-9x-QmZ_00000000abc-", "glpat-9x-QmZ_00000000abc-"),
    ("huggingface_token", "secret", "hf_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF", "hf_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF"),
    (
        "slack_webhook",
        "secret",
        "post to https://hooks.slack.com/services/T01ABCDEF/B01ABCDEF/" + "a1B2c3D4e5F6g7H8i9J0k1L2",
        "hooks.slack.com/services/T01ABCDEF/B01ABCDEF/a1B2c3D4e5F6g7H8i9J0k1L2",
    ),
    ("slack_token", "secret", "xoxb-123456789012-abcDEF", "xoxb-123456789012-abcDEF"),
    ("stripe_key", "secret", "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", "sk_live_4eC39HqLyjWDarjtT1zdp7dc"),
    ("openai_key", "secret", "sk-proj-abcD1234efgh5678IJKL9012mnop", "sk-proj-abcD1234efgh5678IJKL9012mnop"),
    ("anthropic_key", "secret", "sk-ant-api03-abcD1234efgh5678", "sk-ant-api03-abcD1234efgh5678"),
    (
        "google_api_key",
        "secret",
        "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
        "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    ),
    (
        "jwt",
        "secret",
        "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlaGVyZQ",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlaGVyZQ",
    ),
    ("private_key", "secret", "-----BEGIN RSA PRIVATE KEY-----\nMIIE", "-----BEGIN RSA PRIVATE KEY-----"),
    ("password", "secret", "password = hunter2", "hunter2"),
    ("password", "secret", '{"db_password": "S3cret!x"}', "S3cret!x"),
    ("password", "secret", "pwd=493817", "493817"),
    ("password", "secret", "the password is Tr0ub4dor&3", "Tr0ub4dor&3"),
    ("api_key", "secret", 'API_KEY="a8f5f167f44f4964e6c998dee827110c"', "a8f5f167f44f4964e6c998dee827110c"),
    ("bearer_token", "secret", "Authorization: Bearer 9f86d081884c7d65", "9f86d081884c7d65"),
    ("api_key", "secret", "api key is 123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
    ("api_key", "secret", "NIMBUS_KEY=nmb_sk_R7tY3wB6zq4f9KxP2m", "nmb_sk_R7tY3wB6zq4f9KxP2m"),
    ("api_key", "secret", "SECRET_KEY = 'q8$z!w3@e#r5^t7&y9*u1(i2)o4'", "q8$z!w3@e#r5^t7&y9*u1(i2)o4"),
    ("password", "secret", "密码：hunter2!", "hunter2!"),
    ("password", "secret", "パスワードは Tr0ub4dor&3", "Tr0ub4dor&3"),
    ("url_password", "secret", "postgres://app:kd93kdk2@db.internal/x", "kd93kdk2"),
    # Spelled to hide.
    ("card", "pci", "４111 1111 1111 1111", "４111 1111 1111 1111"),
    ("card", "pci", "٤١١١١١١١١١١١١١١١", "٤١١١١١١١١١١١١١١١"),
    ("card", "pci", "4111‑1111‑1111‑1111", "4111‑1111‑1111‑1111"),
    ("email", "pii", "jаne＠corp.com", "jаne＠corp.com"),
    ("email", "pii", "ja\u200bne@cor\u00adp.com", "ja\u200bne@cor\u00adp.com"),
    ("email", "pii", "ja\x00ne@cor\x1bp.com", "ja\x00ne@cor\x1bp.com"),
    ("email", "pii", '{"to": "jane\\u0040corp.com"}', "jane\\u0040corp.com"),
    ("card", "pci", '{"note": "card\\n4111111111111111"}', "4111111111111111"),
    ("password", "secret", '"{\\"password\\": \\"hunter2\\"}"', "hunter2\\"),
    ("email", "pii", "to jane&#64;corp.com now", "jane&#64;corp.com"),
    ("email", "pii", "to jane\\x40corp.com now", "jane\\x40corp.com"),
    ("email", "pii", "jane@[8.8.4.5]", "jane@[8.8.4.5]"),
    ("email", "pii", "пишите на иван@пример.рф сегодня", "иван@пример.рф"),
    ("email", "pii", "邮箱：张三@例子.中国，谢谢", "张三@例子.中国"),
    ("email", "pii", "mail jane@例え.jp please", "jane@例え.jp"),
    ("card", "pci", "4111%201111%201111%201111", "4111%201111%201111%201111"),
    # Cut by marks, and glued to what they are.
    *(
        ("card", "pci", f"card {mark.join(groups)} ok", mark.join(groups))
        for groups in (["4111", "1111", "1111", "1111"], ["3714", "496353", "98431"], list("4111111111111111"))
        for mark in ("\n", "\t", "  ", ".", "/", "_", ",", ", ", "\r\n")
    ),
    ("card", "pci", "pay 5500\n0000 0000-0004 now", "5500\n0000 0000-0004"),
    ("card", "pci", "in 2024 5555.5555.5555.4444 12/27", "5555.5555.5555.4444"),
    ("card", "pci", "1001,4111111111111111,12/27,123\n1002,17,3", "4111111111111111"),
    ("card", "pci", "pay 41111111111\n11111 now", "41111111111\n11111"),
    ("card", "pci", "the card 41/11/11/11/11/11/11/11 ok", "41/11/11/11/11/11/11/11"),
    ("card", "pci", "pan_4111111111111111", "4111111111111111"),
    ("card", "pci", "cardno4111111111111111x", "4111111111111111"),
    ("iban", "pii", "DE89 3704 0044\n0532 0130 00", "DE89 3704 0044\n0532 0130 00"),
    ("iban", "pii", "DE8937040\n0440532013000", "DE8937040\n0440532013000"),
    ("iban", "pii", "GB82 WEST 1234\n5698 7654 32", "GB82 WEST 1234\n5698 7654 32"),
    ("iban", "pii", "iban_DE89370400440532013000", "DE89370400440532013000"),
    ("us_ssn", "pii", "my_ssn_536904399", "536904399"),
]


@pytest.mark.parametrize(("kind", "tag", "text", "value"), MUST_BE_FOUND)
def test_a_value_is_found_where_it_stands(kind: str, tag: str, text: str, value: str) -> None:
    findings = SCANNER.scan([TextPart("prompt", None, text)]).findings
    beside = [(f.kind, f.tag, text[f.start : f.end]) for f in findings if f.tag not in NOTED or tag in NOTED]
    assert beside == [(kind, tag, value)]


@pytest.mark.parametrize("text", HARMLESS_PROMPTS)
def test_a_harmless_prompt_has_no_finding_that_raises_anything(text: str) -> None:
    assert [kind for kind, _ in found(text) if kind not in NOTED] == []


@pytest.mark.parametrize(
    "text", ["open main.py, lib.rs and README.md", "http://localhost:80/x www.example.com https://gate.internal/y"]
)
def test_what_is_no_address_of_somebody_is_no_domain(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("ssn", "078051120", "us_ssn"),
        ("cardNumber", "630427373398", "card"),
        ("password", "hunter2", "password"),
        ("userPassword", "correct horse", "password"),
        ("birth_date", "1985-03-12", "date_of_birth"),
        ("phoneNumber", "912345678", "phone"),
        ("x-api-key", "a8f5f167f44f4964e6c998dee827110c", "api_key"),
        ("ｓｓｎ", "078051120", "us_ssn"),
    ],
)
def test_the_name_of_a_field_is_context_for_its_value(field: str, value: str, kind: str) -> None:
    assert [name for name, _ in found(value, field)] == [kind]
    assert found(value) == []


def test_a_field_that_describes_a_password_holds_none() -> None:
    assert [found(value, "password") for value in ("string", "required", "<password>", "${PW}", "true")] == [[]] * 5


def test_a_value_in_any_channel_of_a_request_is_found_at_its_path() -> None:
    request = parse_chat(
        b'{"model":"m","messages":[{"role":"user","content":"jane@corp.com"},{"role":"assistant","content":"ok",'
        b'"tool_calls":[{"function":{"name":"pay","arguments":"{\\"iban\\": \\"DE89370400440532013000\\"}"}}]},'
        b'{"role":"tool","content":"AKIAIOSFODNN7EXAMPLE"},{"role":"user","content":"thanks, and what is DNS?"}],'
        b'"brand_new":{"deep":["SSN 078-05-1120"]},"metadata":{"4012888888881881":"x","card":4111111111111111}}'
    )
    findings = SCANNER.scan(request.text_parts()).findings
    assert [(finding.kind, finding.path) for finding in findings] == [
        ("email", "messages[0].content"),
        ("iban", "messages[1].tool_calls[0].function.arguments"),
        ("aws_access_key_id", "messages[2].content"),
        ("us_ssn", "brand_new.deep[0]"),
        ("card", "metadata#keys"),
        ("card", "metadata.card"),
    ]


def test_a_finding_never_holds_the_value() -> None:
    finding = SCANNER.scan([TextPart("messages[0].content", "user", "jane@corp.com")]).findings[0]
    assert "jane" not in repr(finding)


def test_where_two_detectors_of_one_tag_meet_the_more_specific_one_names_the_place() -> None:
    assert found("api_key=sk-proj-abcD1234efgh5678IJKL9012mnop") == [
        ("openai_key", "sk-proj-abcD1234efgh5678IJKL9012mnop")
    ]


def test_values_side_by_side_are_found_each() -> None:
    cards = "4111111111111111 5555555555554444,378282246310005;4111111111111111"
    assert [kind for kind, _ in found(cards)] == ["card"] * 4


@given(before=CLEAN, after=CLEAN, index=st.integers(0, len(MUST_BE_FOUND) - 1))
def test_text_around_a_value_moves_its_offsets_and_nothing_else(before: str, after: str, index: int) -> None:
    kind, _, text, value = MUST_BE_FOUND[index]
    padded = f"{before}\n. {text} .\n{after}"
    assert (kind, value) in found(padded)


texts = st.one_of(
    st.sampled_from([text for _, _, text, _ in MUST_BE_FOUND]),
    st.sampled_from(HARMLESS_PROMPTS),
    st.text(alphabet='4111 -.@:/"\\n\x00abc٤é', max_size=40),
    st.sampled_from(
        ["4111 1111", " 1111 1111", "password:", "hunter2", "patient", "sk-", "+49 30 1", "born on ", "2/8/1935"]
    ),
)


@given(st.lists(st.tuples(texts, st.sampled_from([None, "content", "password", "card_number"])), max_size=6))
def test_scanning_parts_together_equals_scanning_each_alone(pairs: list[tuple[str, str | None]]) -> None:
    parts = [TextPart(f"p{index}", None, text, field) for index, (text, field) in enumerate(pairs)]
    together = SCANNER.scan(parts)
    alone = [SCANNER.scan([part]) for part in parts]
    assert together.findings == tuple(finding for result in alone for finding in result.findings)
    assert together.causes == frozenset().union(*(result.causes for result in alone))


@given(st.text())
def test_any_text_can_be_scanned_and_offsets_lie_inside_it(text: str) -> None:
    result = SCANNER.scan([TextPart("p", None, text + " jane@corp.com " + text)])
    assert result.causes == frozenset()
    assert all(0 <= f.start < f.end <= 2 * len(text) + 15 for f in result.findings)
    assert any(f.kind == "email" for f in result.findings)


def test_a_lone_surrogate_does_not_stop_the_scan() -> None:
    assert found("\ud800 jane@corp.com \\ud83d\\ude00") == [("email", "jane@corp.com")]


def test_no_parts_and_empty_parts_are_clean() -> None:
    assert SCANNER.scan([]).findings == ()
    assert SCANNER.scan([TextPart("a", None, ""), TextPart("b", None, "")]).causes == frozenset()


def test_what_is_no_text_becomes_a_cause() -> None:
    parts = [
        TextPart("a", None, Uninspectable(UninspectableCause.IMAGE)),
        TextPart("b", None, "jane@corp.com"),
        TextPart("c", None, Uninspectable(UninspectableCause.BLOB)),
    ]
    result = SCANNER.scan(parts)
    assert result.causes == {UninspectableCause.IMAGE, UninspectableCause.BLOB}
    assert [finding.path for finding in result.findings] == ["b"]


def failing(candidate: Candidate) -> bool:
    raise RuntimeError(f"cannot read {candidate.value}")


def test_a_check_that_raises_leaves_the_part_uninspected_and_other_detectors_at_work() -> None:
    scanner = Scanner([Detector("broken", "pii", "[a-z]{4}", failing), *IDENTIFIERS], folding_table())
    result = scanner.scan([TextPart("p", None, "jane@corp.com")])
    assert result.causes == {UninspectableCause.DETECTOR_ERROR}
    assert [finding.kind for finding in result.findings] == ["email"]


class NoMemory:
    """RE2's set as it answers when it ran out of memory: no match and no error."""

    def Match(self, _text: bytes) -> None:
        return None


def test_a_set_that_could_not_be_matched_is_never_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    scanner = build_scanner()
    monkeypatch.setattr(scanner, "_set", NoMemory())
    assert scanner.scan([TextPart("p", None, "anything")]).causes == {UninspectableCause.DETECTOR_ERROR}


def test_no_pattern_can_run_over_the_end_of_a_part() -> None:
    patterns = [re2.compile(detector.pattern) for detector in (*IDENTIFIERS, *SECRETS)]
    for _, _, text, _ in MUST_BE_FOUND:
        for cut in range(len(text)):
            joined = text[:cut] + "\x00" + text[cut:]
            assert not any("\x00" in match[0] for pattern in patterns for match in pattern.finditer(joined))


@pytest.mark.parametrize(
    "unit",
    [
        "jane@corp.com, card 4111 1111 1111 1111; ",
        "4111 ",
        "eyJa-",
        "1:",
        "\\",
        "\\n4",
        "password: ",
        "пример jane@corp.com ",
    ],
)
def test_the_cost_grows_with_the_length_of_the_text_and_not_faster(unit: str) -> None:
    def cost(length: int) -> float:
        parts = [TextPart("p", None, unit * (length // len(unit)))]
        started = time.process_time()
        SCANNER.scan(parts)
        return time.process_time() - started

    cost(16 << 10)
    # Sixteen times the text; a quadratic scan would take 256 times as long.
    assert cost(256 << 10) < 80 * max(cost(16 << 10), 1e-4)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("Card4111 1111 1111 111112/27", "card", "4111 1111 1111 1111"),
        ("exp12No4111111111111111x9", "card", "4111111111111111"),
        ("Amex378282246310005exp27", "card", "378282246310005"),
        ("Phone+491701234567now", "phone", "+491701234567"),
        ("AWSkeyAKIAIOSFODNN7QWERTYUregion", "aws_access_key_id", "AKIAIOSFODNN7QWERTYU"),
        ("IBANDE89370400440532013000BICCOBA", "iban", "DE89370400440532013000"),
        ("ssn078-05-1120x", "us_ssn", "078-05-1120"),
    ],
)
def test_in_text_that_has_lost_its_spaces_values_are_found_whatever_they_touch(
    text: str, kind: str, value: str
) -> None:
    parts = [TextPart("a", None, text)]
    found = JOINED_SCANNER.scan(parts).findings
    assert (kind, value) in [(each.kind, text[each.start : each.end]) for each in found]
    assert kind not in [each.kind for each in SCANNER.scan(parts).findings]


@pytest.mark.parametrize(
    "text",
    ["2021 2022 2023 2024 2025 2026", "Gate 7 opens 14:30", "invoice 2026-0117 total 1,245.00 EUR", "is-ready-v1"],
)
def test_what_is_no_value_with_its_spaces_is_none_without_them(text: str) -> None:
    assert JOINED_SCANNER.scan([TextPart("a", None, text)]).findings == ()
