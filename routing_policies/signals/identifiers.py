"""Identifiers of people, cards and accounts, and health records: what is looked for and what makes a match count.

Where a value has a checksum or a range, that decides (python-stdnum); where its shape alone is common, a word before it
must say what it is. Addresses and numbers that exist to be shown in documents are not findings.
"""

from __future__ import annotations

import re

from stdnum.iso7064 import mod_97_10
from stdnum.us import ssn

from routing_policies.signals.detector import Candidate, Detector
from routing_policies.signals.network_addresses import is_somebodys_ipv4, is_somebodys_ipv6

# Between a word that names a value and the value: `DOB: `, `phone_number = "`, `"ssn": "`, `number is `.
_GAP = r"[ \t\r\n]{0,4}"
LINK = (
    r"""[ _-]?(?:numbers?|num|no\.?|nr\.?|id|#)?["'`]?"""
    rf"""{_GAP}(?:is|was|at|on|:|=|=>|->|:=)?{_GAP}["'`]?"""
)

# ISO/IEC 7812 ranges of the networks, and the lengths that they issue.
_ISSUERS = (
    (re.compile(r"4"), {16, 19}),
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), {16}),
    (re.compile(r"3[47]"), {15}),
    (re.compile(r"30[0-5]|3095|36|3[89]"), {14, 16}),
    (re.compile(r"6011|64[4-9]|65|352[89]|35[3-8]|62"), {16, 19}),
)
_CARD_WORDS = re.compile(
    rb"(?i)(?:\b|_|credit|debit|bank|master)cards?(?:\b|_)|credit|debit|visa|amex|maestro|\bcc\b|\bpan\b|carte|karte|tarjeta"
)
_SSN_WORDS = re.compile(rb"(?i)\bssn\b|social.{0,2}security|soc\.? sec")
_URL_AUTHORITY = re.compile(rb"://[0-9A-Za-z._~%!$&'()*+,;=:-]*\Z")
_BARE_AFTER_WORD = re.compile(rb"[A-Za-z][ \t]{1,4}\Z")
_DIGIT_SUM_OF_DOUBLE = bytes.maketrans(b"0123456789", b"0246813579")
# Lengths of the country codes in the SWIFT IBAN registry, without the country code and the check digits.
_BBAN_LENGTHS = {
    11: "NO",
    12: "BE",
    14: "DK FI FK FO GL NL SD",
    15: "MK SI",
    16: "AT BA EE KZ LT LU MN XK",
    17: "CH HR LI LV",
    18: "BG BH CR DE GB GE IE ME RS VA",
    19: "AE GI IL IQ OM SO TL",
    20: "AD CZ ES MD PK RO SA SE SK TN VG",
    21: "LY PT ST",
    22: "IS TR",
    23: "BI DJ FR GR IT MC MR SM",
    24: "AL AZ BY CY DO GT HN HU LB NI PL SV",
    25: "BR EG PS QA UA",
    26: "JO KW MU YE",
    27: "MT SC",
    28: "LC",
    29: "RU",
}
_MONTHS = (
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mai|okt|dez|fev|avr|juin|juil|aout|ene|abr|ago|dic|gen|mag|"
    r"giu|lug|set|ott|maart|mei|sty|lut|kwi|maj|cze|lip|sie|wrz|paz|lis|gru)[a-z]{0,9}\.?"
)
_DATE = (
    r"(?:\d{1,4}[-/. ]\d{1,2}[-/. ]\d{2,4}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of |de )?{_MONTHS},? (?:de )?\d{{4}}"
    rf"|{_MONTHS} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}})\b"
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
_NOBODY = frozenset("git hg svn noreply no-reply donotreply do-not-reply".split())


def _is_card(candidate: Candidate) -> bool:
    digits = candidate.digits
    if not _passes_luhn(digits.encode()) or len(set(digits)) == 1 or candidate.is_inside_longer_token():
        return False
    issued = any(prefix.match(digits) and len(digits) in lengths for prefix, lengths in _ISSUERS)
    return issued or candidate.follows(_CARD_WORDS)


def _passes_luhn(digits: bytes) -> bool:
    """Check the sum of ISO/IEC 7812-1, annex B, ten times as fast as stdnum's: long numbers abound in logs."""
    doubled = digits[-2::-2].translate(_DIGIT_SUM_OF_DOUBLE)
    return (sum(digits[-1::-2]) + sum(doubled) - len(digits) * ord("0")) % 10 == 0


def _is_iban(candidate: Candidate) -> bool:
    compact = re.sub(r"[ -]", "", candidate.value).upper()
    return not candidate.is_inside_longer_token() and mod_97_10.is_valid(compact[4:] + compact[:4])


def _is_ssn(candidate: Candidate) -> bool:
    if candidate.is_inside_longer_token():
        return False
    # A word before it outweighs the ranges: the well-known sample numbers are somebody's intention to give one.
    return candidate.follows(_SSN_WORDS) or ("-" in candidate.value and ssn.is_valid(candidate.value))


def _is_email(candidate: Candidate) -> bool:
    local, _, domain = candidate.value.replace("%40", "@").partition("@")
    after = candidate.after
    if local.lower() in _NOBODY or domain.rpartition(".")[2].lower() in _NO_DOMAINS or ".." in domain:
        return False
    if _URL_AUTHORITY.search(candidate.before) is not None:
        return False  # the user of a URL
    return after[:1] not in (b"(", b"[") and after[:2] not in (b":/", b":~")


def _is_international_phone(candidate: Candidate) -> bool:
    digits = candidate.digits
    if re.search(rb"[0-9A-Za-z)+]\Z", candidate.before) or candidate.is_inside_longer_token():
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
    Detector(
        "card",
        "pci",
        r"\b(?:\d{4}[ -]\d{4}[ -]\d{4}[ -]\d{4}|\d{4}[ -]\d{6}[ -]\d{4,5}|\d{12,19})\b",
        _is_card,
        overlapping=True,
    ),
    Detector(
        "iban",
        "pii",
        r"(?i)\b(?:"
        + "|".join(
            rf"(?:{'|'.join(countries.split())})\d\d(?:[ -]?[A-Z0-9]{{4}}){{{length // 4}}}"
            + (rf"[ -]?[A-Z0-9]{{{length % 4}}}" if length % 4 else "")
            for length, countries in _BBAN_LENGTHS.items()
        )
        + r")\b",
        _is_iban,
        overlapping=True,
    ),
    Detector("us_ssn", "pii", r"\b(?:\d{3}-\d{2}-\d{4}|\d{3} \d{2} \d{4}|\d{9})\b", _is_ssn, overlapping=True),
    Detector(
        "email", "pii", r"[A-Za-z0-9_][A-Za-z0-9._%+-]*(?:@|%40)[A-Za-z0-9-][A-Za-z0-9.-]*\.[A-Za-z]{2,24}\b", _is_email
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
