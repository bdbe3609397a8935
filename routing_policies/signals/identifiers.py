"""Identifiers of people, cards and accounts, and health records: what is looked for and what makes a match count.

Where a value has a checksum or a range, that decides (python-stdnum); where its shape alone is common, a word before it
must say what it is. Addresses and numbers that exist to be shown in documents are not findings.
"""

from __future__ import annotations

import re

from stdnum.us import ssn

from routing_policies.signals.cards import CARD
from routing_policies.signals.detector import Candidate, Detector
from routing_policies.signals.ibans import IBAN
from routing_policies.signals.network_addresses import is_somebodys_ipv4, is_somebodys_ipv6

# Between a word that names a value and the value: `DOB: `, `phone_number = "`, `"ssn": "`, `number is `.
_GAP = r"[ \t\r\n]{0,4}"
LINK = (
    r"""[ _-]?(?:numbers?|num|no\.?|nr\.?|id|#)?["'`]?"""
    rf"""{_GAP}(?:is|was|at|on|:|=|=>|->|:=)?{_GAP}["'`]?"""
)

_SSN_WORDS = re.compile(rb"(?i)(?:\b|_)ssn(?:\b|_)|social.{0,2}security|soc\.? sec")
_URL_AUTHORITY = re.compile(rb"://[0-9A-Za-z._~%!$&'()*+,;=:-]*\Z")
_AFTER_NO_ADDRESS = (b"(", b"[", b":/", b":~")  # calls, indices, and places on hosts
_BARE_AFTER_WORD = re.compile(rb"[A-Za-z][ \t]{1,4}\Z")
MONTHS = (
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mai|okt|dez|fev|avr|juin|juil|aout|ene|abr|ago|dic|gen|mag|"
    r"giu|lug|set|ott|maart|mei|sty|lut|kwi|maj|cze|lip|sie|wrz|paz|lis|gru)[a-z]{0,9}\.?"
)
_DATE = (
    r"(?:\d{1,4}[-/. ]\d{1,2}[-/. ]\d{2,4}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of |de )?{MONTHS},? (?:de )?\d{{4}}"
    rf"|{MONTHS} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}})\b"
)
_BIRTH = (
    r"\b(?:dob|d\.o\.b\.?|date[ _-]?of[ _-]?birth|birth[ _-]?da(?:te|y)|born|geburtsdatum|geboren|geb\.|"
    r"date de naissance|nee? le|fecha de nacimiento|nacid[oa](?: el)?|data di nascita|nat[oa] il|data de nascimento|"
    r"nascid[oa] em|geboortedatum|data urodzenia|urodzon[ya])(?: (?:am|op))?"
)
_PHONE_WORDS = (
    r"(?:\b|_)(?:(?:tele|cell)?phone|tel|mobile|cell|desk|fax|whatsapp|call (?:me|us|him|her)|telefon[eo]?|handy|movil|"
    r"portable|cellulare|telemovel|komorka)\.?"
)
_RECORD_WORDS = r"\b(?:mrn|medical[ _-]?record|patient[ _-]?id|chart[ _-]?(?:number|no))"
_PATIENT = r"\b(?:[Pp]atient|[Pp]t\.?):? (?:[A-Z]\. ?[A-Z]\.?|[A-Z][a-z]{1,20} [A-Z][a-z]{1,20})\b"
_MEASURE = (
    r"\b(?:HbA1c|A1c|eGFR|LDL|HDL|TSH|PSA|INR|BMI|BP|CRP|WBC|RBC|creatinine|ha?emoglobin|glucose|troponin|"
    r"blood pressure|heart rate|cholesterol|viral load)"
)
# Suffixes that follow an `@` in file names, package coordinates and code, and are no country's domain.
_NO_DOMAINS = frozenset(
    "png jpg jpeg gif svg webp js jsx tsx mjs css html json xml yaml yml toml txt csv tgz tar gz zip whl jar rb "
    "php java kt go cpp hpp service socket timer target mount slice device local internal localhost invalid "
    "shape dtype mean sum view transpose reshape flatten".split()
)
# Letters of internationalised addresses (RFC 6531), in scripts that put spaces between words; in those that put none,
# what stands around an address would be taken for a part of it, so that only their own domains count.
_LETTERS = (
    r"\x{C0}-\x{24F}\p{Cyrillic}\p{Greek}\p{Arabic}\p{Hebrew}\p{Armenian}\p{Georgian}\p{Devanagari}"
    r"\p{Bengali}\p{Hangul}"
)
_FOREIGN = rf"{_LETTERS}\p{{Han}}\p{{Hiragana}}\p{{Katakana}}"
_LABEL = f"[{_FOREIGN}A-Za-z0-9-]+"
_HAN_DOMAINS = "中国|中國|公司|网络|網絡|网址|在线|香港|台湾|台灣|新加坡|集团|中文网|我爱你|商城"
_NOBODY = frozenset("git hg svn noreply no-reply donotreply do-not-reply".split())


def _is_ssn(candidate: Candidate) -> bool:
    if candidate.is_inside_longer_token():
        return False
    # A word before it outweighs the ranges: the well-known sample numbers are somebody's intention to give one.
    return candidate.follows(_SSN_WORDS) or ("-" in candidate.value and ssn.is_valid(candidate.value))


def _is_email(candidate: Candidate) -> bool:
    local, _, domain = candidate.value.replace("%40", "@").partition("@")
    if local.lower() in _NOBODY or domain.rpartition(".")[2].lower() in _NO_DOMAINS or ".." in domain:
        return False
    before = candidate.before
    if b"://" in before and _URL_AUTHORITY.search(before) is not None:
        return False  # the user of a URL
    return not candidate.after.startswith(_AFTER_NO_ADDRESS)


def _is_international_phone(candidate: Candidate) -> bool:
    digits = candidate.digits
    if not candidate.is_joined and re.search(rb"[0-9A-Za-z)+]\Z", candidate.before):
        return False
    if candidate.is_inside_longer_token():
        return False
    if digits.startswith("1"):  # the North American plan: ten digits, no area begins with 0 or 1
        return len(digits) == 11 and digits[1] > "1"
    return 8 <= len(digits) <= 15


def _stands_alone(candidate: Candidate) -> bool:
    return not candidate.is_inside_longer_token()


def _is_named_phone(candidate: Candidate) -> bool:
    if not 7 <= len(candidate.digits) <= 15 or candidate.is_inside_longer_token():
        return False
    # "mobile 1000000 users": digits without any format need more than a word before them.
    return not (candidate.value.isdecimal() and candidate.follows(_BARE_AFTER_WORD))


def _is_birth_date(candidate: Candidate) -> bool:
    *rest, year = sorted(int(number) for number in re.findall(r"\d+", candidate.value))
    return (1900 <= year <= 2100 or year <= 99) and all(1 <= number <= 31 for number in rest)


def _holds_digit(candidate: Candidate) -> bool:
    return any(map(str.isdecimal, candidate.value))


IDENTIFIERS: tuple[Detector, ...] = (
    CARD,
    IBAN,
    Detector(
        "us_ssn", "pii", r"(?:\b|_)(\d{3}-\d{2}-\d{4}|\d{3} \d{2} \d{4}|\d{9})(?:\b|_)", _is_ssn, overlapping=True
    ),
    Detector(
        "email", "pii", r"[A-Za-z0-9_][A-Za-z0-9._%+-]*(?:@|%40)[A-Za-z0-9-][A-Za-z0-9.-]*\.[A-Za-z]{2,24}\b", _is_email
    ),
    Detector(
        "email",
        "pii",
        rf"[{_LETTERS}A-Za-z0-9._%+-]*[{_LETTERS}][{_LETTERS}A-Za-z0-9._%+-]*(?:@|%40)(?:{_LABEL}\.)+"
        rf"(?:[{_LETTERS}A-Za-z]{{2,24}}|xn--[a-z0-9-]{{2,59}}|{_HAN_DOMAINS})",
        _is_email,
    ),
    Detector(
        "email",
        "pii",
        rf"[A-Za-z0-9_][A-Za-z0-9._%+-]*(?:@|%40)(?:{_LABEL}\.)*"
        rf"(?:[A-Za-z0-9-]*[{_FOREIGN}]{_LABEL}?\.(?:{_LABEL}\.)*[{_LETTERS}A-Za-z]{{2,24}}"
        rf"|{_LABEL}\.(?:[{_LETTERS}]{{2,24}}|{_HAN_DOMAINS}))",
        _is_email,
    ),
    Detector("email", "pii", rf"\p{{Han}}{{1,8}}@(?:[A-Za-z0-9\p{{Han}}-]+\.)+(?:{_HAN_DOMAINS})"),
    Detector(
        "email",
        "pii",
        r"[A-Za-z0-9_][A-Za-z0-9._%+-]*(?:@|%40)\[(?:\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|(?i:IPv6:)[0-9A-Fa-f:.]{2,45})\]",
        _is_email,
    ),
    Detector("ip_address", "pii", r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b", is_somebodys_ipv4),
    Detector(
        "ip_address",
        "pii",
        r"\b(?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){7}|[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,6}::"
        r"(?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,6})?)\b",
        is_somebodys_ipv6,
    ),
    Detector(
        "phone",
        "pii",
        r"\+[1-9]\d{0,2}[ ./-]?(?:\(\d{1,5}\)[ ./-]?)?\d{1,5}(?:[ ./-]?\d{1,5}){1,6}\b",
        _is_international_phone,
    ),
    Detector("phone", "pii", rf"(?i){_PHONE_WORDS}{LINK}(\(?\d[\d ()./-]{{5,20}}\d)(?:x\d{{1,6}})?\b", _is_named_phone),
    Detector("phone", "pii", r"(?:\([2-9]\d\d\) ?|\b[2-9]\d\d-)\d\d\d-\d\d\d\d(?:x\d{1,6})?\b", _stands_alone),
    Detector("date_of_birth", "pii", rf"(?i){_BIRTH}{LINK}({_DATE})", _is_birth_date),
    Detector(
        "medical_record_number",
        "phi",
        rf"(?i){_RECORD_WORDS}{LINK}([A-Z0-9][A-Z0-9-]{{3,15}})\b",
        _holds_digit,
    ),
    Detector(
        "diagnosis_code",
        "phi",
        r"\b(?i:diagnos(?:is|es|ed)|dx|patient)\b[ -~]{0,48}\b([A-TV-Z]\d[0-9AB]\.[0-9A-Z]{1,4})\b",
    ),
    Detector("clinical_measure", "phi", rf"({_PATIENT}[ -~]{{0,80}}{_MEASURE}[ :=]{{0,3}}(?:of |is |was )?\d)"),
)
