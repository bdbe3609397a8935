"""International bank account numbers (ISO 13616), in one piece or cut by marks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stdnum.iso7064 import mod_97_10

from routing_policies.signals.detector import MARK, Candidate, Detector

# Lengths of the country codes in the SWIFT IBAN registry, without the country code and the check digits.
_BBAN_LENGTHS = {
    country: length
    for length, countries in {
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
    }.items()
    for country in countries.split()
}
_HEAD_BYTES = 4  # country code and check digits, which nothing cuts
_BODIES = {
    length: re.compile(rb"(?:%b{0,2}[0-9A-Za-z]){%d}" % (MARK.encode(), length))
    for length in set(_BBAN_LENGTHS.values())
}
_GOES_ON = re.compile(rb"[0-9A-Za-z]")
_MARKS = re.compile(MARK.encode())
_IN_FOURS = re.compile(rb"(?:[0-9A-Za-z]{4}%b{0,2})*[0-9A-Za-z]{0,4}" % MARK.encode())


def _iban_within(head: Candidate) -> Iterator[Candidate]:
    """Yield the number that a country code and check digits begin, as long as that country's are."""
    country = head.value[:2].upper()
    body = _BODIES[_BBAN_LENGTHS[country]].match(head.buffer, head.start + _HEAD_BYTES, head.part_end)
    if body is not None and (head.is_joined or _GOES_ON.match(head.buffer, body.end()) is None):
        yield head._replace(end=body.end())


def _is_iban(candidate: Candidate) -> bool:
    spelled = candidate.value.encode()
    compact = _MARKS.sub(b"", spelled).decode().upper()
    if not compact[_HEAD_BYTES:].isdecimal():  # letters are words' too: cut only in fours, and glued to no other
        glued = re.search(rb"[0-9A-Za-z]\Z", candidate.before)
        if (glued is not None and not candidate.is_joined) or _IN_FOURS.fullmatch(spelled) is None:
            return False
    if candidate.is_glued_to_digits() or candidate.is_inside_longer_token():
        return False
    return bool(mod_97_10.is_valid(compact[_HEAD_BYTES:] + compact[:_HEAD_BYTES]))


IBAN = Detector(
    "iban",
    "pii",
    rf"(?i)(?:\b|[A-Z_])((?:{'|'.join(_BBAN_LENGTHS)})[0-9]{{2}}(?:{MARK}{{0,2}}[0-9A-Z]){{11}})",
    _is_iban,
    overlapping=True,
    within=_iban_within,
)
