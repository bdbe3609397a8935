from __future__ import annotations

import pytest

from inference_protocol.text_parts import TextPart
from routing_policies.signals.scanner import build_scanner

SCANNER = build_scanner()

BY_FORM = [
    ("it_codice_fiscale", "RSSMRA85T10A562S"),
    ("fr_nir", "2 53 07 2B 073 004 70"),
    ("fr_nir", "253072B07300470"),
    ("fi_hetu", "131052-308T"),
    ("ch_ahv", "756.9217.0769.85"),
    ("be_nn", "85.07.30-033.28"),
    ("gb_nino", "AB 12 34 56 C"),
    ("cn_ric", "11010519491231002X"),
    ("kr_rrn", "850101-1234567"),
    ("hk_hkid", "A123456(3"),
    ("sg_nric", "S1234567D"),
]
BY_WORD = [
    ("at_vnr", "SVNR", "1237 010180"),
    ("be_nn", "rijksregisternummer", "85073003328"),
    ("bg_egn", "EGN", "7523169263"),
    ("ch_ahv", "AHV-Nr.", "7569217076985"),
    ("cz_rc", "rodné číslo", "710319/2745"),
    ("de_idnr", "Steuer-ID", "36 574 261 809"),
    ("dk_cpr", "CPR", "211062-5629"),
    ("ee_ik", "isikukood", "37605030299"),
    ("es_dni", "DNI", "54362315K"),
    ("es_nie", "NIE", "X2482300W"),
    ("gb_nhs", "NHS number", "943 476 5919"),
    ("gb_nino", "National Insurance number", "AB123456C"),
    ("gr_amka", "AMKA", "01013099997"),
    ("hr_oib", "OIB", "33392005961"),
    ("ie_pps", "PPS", "6433435F"),
    ("jp_my_number", "マイナンバー", "6214 9832 0257"),
    ("kr_rrn", "주민등록번호", "8501011234567"),
    ("lt_asmens", "asmens kodas", "33309240064"),
    ("nl_bsn", "BSN", "111222333"),
    ("no_fodselsnummer", "fødselsnummer", "151086 95088"),
    ("pl_pesel", "Mój PESEL to", "44051401359"),
    ("pt_nif", "NIF", "501 964 843"),
    ("ro_cnp", "CNP", "1630615123457"),
    ("se_personnummer", "personnummer", "880320-0016"),
    ("si_emso", "EMŠO", "0101006500006"),
    ("tw_id", "身分證字號", "A123456789"),
    ("cn_ric", "居民身份证号码", "360426199101010071"),
]


def found(text: str, field: str | None = None) -> list[tuple[str, str]]:
    findings = SCANNER.scan([TextPart("prompt", None, text, field)]).findings
    return [(finding.kind, text[finding.start : finding.end]) for finding in findings]


def with_another_last_digit(value: str) -> str:
    at = max(index for index, char in enumerate(value) if char.isdecimal())
    return value[:at] + str((int(value[at]) + 1) % 10) + value[at + 1 :]


@pytest.mark.parametrize(("kind", "value"), BY_FORM)
def test_a_number_is_known_by_its_form(kind: str, value: str) -> None:
    assert found(f"It says {value}) there.") == [(kind, value)]


@pytest.mark.parametrize(("kind", "value"), [each for each in BY_FORM if each[0] not in {"gb_nino", "kr_rrn"}])
def test_a_number_whose_check_fails_is_none(kind: str, value: str) -> None:
    assert kind not in [k for k, _ in found(f"It says {with_another_last_digit(value)}) there.")]


@pytest.mark.parametrize(("kind", "word", "value"), BY_WORD)
def test_a_number_is_known_by_the_word_before_it(kind: str, word: str, value: str) -> None:
    assert found(f"{word}: {value}.") == [(kind, value)]
    assert found(f"{word.upper()} {value}") == [(kind, value)]


@pytest.mark.parametrize(("kind", "word", "value"), BY_WORD)
def test_without_its_word_such_a_number_is_any_number(kind: str, word: str, value: str) -> None:
    assert kind not in [k for k, _ in found(f"It says {value} there.")] or kind in {k for k, _ in BY_FORM}


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("pesel", "44051401359", "pl_pesel"),
        ("steuerId", "36574261809", "de_idnr"),
        ("burgerservicenummer", "111222333", "nl_bsn"),
        ("マイナンバー", "621498320257", "jp_my_number"),
        ("身份证号", "360426199101010071", "cn_ric"),
    ],
)
def test_a_fields_name_is_such_a_word(field: str, value: str, kind: str) -> None:
    assert found(value, field) == [(kind, value)]


@pytest.mark.parametrize(
    "text",
    [
        "PESEL 44051401358 fails its check",
        "the CPR course takes 211362-5629 seconds",
        "NHS digital build 9434765918",
        "order 850101-1234567-22 shipped",
        "part 131052-308TX",
        "commit 253072b07300470f1",
        "S1234567A and T7654321Z are seats",
        "build 202413-1234567",
    ],
)
def test_what_only_looks_like_one_is_none(text: str) -> None:
    assert found(text) == []
