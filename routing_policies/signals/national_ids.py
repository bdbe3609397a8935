"""Numbers by which states know people, in the main countries of Europe and East Asia.

A number whose form alone says what it is needs only its check digits. All others look like any number, and one in ten
or so passes its check by chance, so a word before it must name it, in English or the country's language.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from stdnum.at import vnr
from stdnum.be import nn
from stdnum.bg import egn
from stdnum.ch import ssn as ahv
from stdnum.cn import ric
from stdnum.cz import rc
from stdnum.de import idnr
from stdnum.dk import cpr
from stdnum.ee import ik
from stdnum.es import dni, nie
from stdnum.fi import hetu
from stdnum.fr import nir
from stdnum.gb import nhs
from stdnum.gr import amka
from stdnum.hr import oib
from stdnum.ie import pps
from stdnum.it import codicefiscale
from stdnum.jp import in_
from stdnum.lt import asmens
from stdnum.nl import bsn
from stdnum.no import fodselsnummer
from stdnum.pl import pesel
from stdnum.pt import nif
from stdnum.ro import cnp
from stdnum.se import personnummer
from stdnum.si import emso

from routing_policies.signals.detector import Candidate, Detector

# What may stand between the word that names a number and the number: `is`, `of Mr Meier:`, `番号：`.
_BETWEEN = r"[ -~\x{80}-\x{10FFFF}]{0,24}?"


class _NationalId(NamedTuple):
    """One kind of number. `words` name it, lower case; without any, its form does."""

    kind: str
    words: str
    form: str
    is_valid: Callable[[str], bool]


def _digits(count: int) -> str:
    """A number of so many digits, grouped in any of the usual ways."""
    return rf"\d(?:[ ./-]?\d){{{count - 1}}}"


def _is_nino(number: str) -> bool:
    """Check a prefix by HMRC's manual NIM39110; there are no check digits."""
    prefix = number[:2].upper()
    return prefix not in {"BG", "GB", "NK", "KN", "TN", "NT", "ZZ"} and prefix[1] != "O"


def _is_rrn(number: str) -> bool:
    """Check the date only: since 2020 the last digits are random."""
    digits = re.sub(r"\D", "", number)
    return 1 <= int(digits[2:4]) <= 12 and 1 <= int(digits[4:6]) <= 31


def _weighted(text: str, weights: tuple[int, ...]) -> int:
    return sum(int(char) * weight for char, weight in zip(text, weights, strict=True))


def _is_taiwanese(number: str) -> bool:
    """Check by the weights of the Ministry of the Interior: the letter stands for two digits, 10 to 35."""
    value = 10 + "ABCDEFGHJKLMNPQRSTUVXYWZIO".index(number[0].upper())
    return _weighted(f"{value}{number[1:]}", (1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1)) % 10 == 0


def _is_singaporean(number: str) -> bool:
    """Check the last letter of an NRIC or FIN."""
    number = number.upper()
    offset = {"S": 0, "F": 0, "T": 4, "G": 4, "M": 3}[number[0]]
    letters = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "F": "XWUTRQPNMLK", "G": "XWUTRQPNMLK", "M": "KLJNPQRTUWX"}
    rest = (_weighted(number[1:8], (2, 7, 6, 5, 4, 3, 2)) + offset) % 11
    return letters[number[0]][10 - rest if number[0] == "M" else rest] == number[8]


def _is_hong_kong(number: str) -> bool:
    """Check the digit after the bracket: letters count from A = 10, a missing first letter as 36."""
    text = re.sub(r"[^A-Z0-9]", "", number.upper()).rjust(9)
    values = [36 if char == " " else int(char, 36) for char in text]
    return sum(value * weight for value, weight in zip(values, range(9, 0, -1), strict=True)) % 11 == 0


_IDS = (
    # Their form says what they are.
    _NationalId(
        "it_codice_fiscale",
        "",
        r"[A-Za-z]{6}\d{2}[A-EHLMPR-Ta-ehlmpr-t]\d{2}[A-Za-z]\d{3}[A-Za-z]",
        codicefiscale.is_valid,
    ),
    _NationalId("fr_nir", "", r"[12] ?\d\d ?(?:0\d|1[0-2]|[2-9]\d) ?\d[\dABab] ?\d{3} ?\d{3} ?\d\d", nir.is_valid),
    _NationalId("fi_hetu", "", r"\d{6}[-+A-FU-Ya-fu-y]\d{3}[0-9A-Ya-y]", hetu.is_valid),
    _NationalId("ch_ahv", "", r"756\.\d{4}\.\d{4}\.\d{2}", ahv.is_valid),
    _NationalId("be_nn", "", r"\d\d\.\d\d\.\d\d-\d{3}\.\d\d", nn.is_valid),
    _NationalId("gb_nino", "", r"[A-CEGHJ-PR-TW-Z]{2} \d\d \d\d \d\d [A-D]", _is_nino),
    _NationalId("cn_ric", "", r"[1-9]\d{16}[0-9Xx]", ric.is_valid),
    _NationalId("kr_rrn", "", r"\d{6}-[1-8]\d{6}", _is_rrn),
    _NationalId("hk_hkid", "", r"[A-Z]{1,2}\d{6} ?\([0-9A]", _is_hong_kong),
    _NationalId("sg_nric", "", r"[STFGM]\d{7}[A-Z]", _is_singaporean),
    # These are numbers like others.
    _NationalId(
        "at_vnr", r"svnr|vsnr|sozialversicherungsnummer|versicherungsnummer|sv-nummer", _digits(10), vnr.is_valid
    ),
    _NationalId(
        "be_nn", r"rijksregister(?:nummer)?|registre national|numero national|niss|insz", _digits(11), nn.is_valid
    ),
    _NationalId("bg_egn", r"\begn\b|civil number", _digits(10), egn.is_valid),
    _NationalId("ch_ahv", r"ahv|avs|sozialversicherung", r"756[ .]?\d{4}[ .]?\d{4}[ .]?\d{2}", ahv.is_valid),
    _NationalId("cz_rc", r"rodne cislo|rodneho cisla|\br\.? ?c\.", r"\d{6}/?\d{3,4}", rc.is_valid),
    _NationalId(
        "de_idnr", r"steuer[ -]?(?:id|identifikationsnummer|nummer|nr)|\bidnr\b|tax id", _digits(11), idnr.is_valid
    ),
    _NationalId("dk_cpr", r"\bcpr\b|personnummer", r"\d{6}-?\d{4}", cpr.is_valid),
    _NationalId("ee_ik", r"isikukood", _digits(11), ik.is_valid),
    _NationalId("es_dni", r"\bdni\b|\bnif\b|documento nacional", r"\d{8}[ -]?[A-Za-z]", dni.is_valid),
    _NationalId("es_nie", r"\bnie\b|extranjero", r"[XYZxyz][ -]?\d{7}[ -]?[A-Za-z]", nie.is_valid),
    _NationalId("gb_nhs", r"\bnhs\b", _digits(10), nhs.is_valid),
    _NationalId("gb_nino", r"national insurance|\bnino?\b", r"[A-CEGHJ-PR-TW-Z]{2}\d{6}[A-D]", _is_nino),
    _NationalId("gr_amka", r"\bamka\b", _digits(11), amka.is_valid),
    _NationalId("hr_oib", r"\boib\b", _digits(11), oib.is_valid),
    _NationalId("ie_pps", r"\bpps", r"\d{7}[A-Wa-w][A-IWTXa-iwtx]?", pps.is_valid),
    _NationalId("jp_my_number", r"マイナンバー|個人番号|my ?number|individual number", _digits(12), in_.is_valid),
    _NationalId("kr_rrn", r"주민(?:등록)?번호|외국인등록번호|resident registration", _digits(13), _is_rrn),
    _NationalId("lt_asmens", r"asmens kodas", _digits(11), asmens.is_valid),
    _NationalId("nl_bsn", r"\bbsn\b|burgerservicenummer|sofi-?nummer", _digits(9), bsn.is_valid),
    _NationalId(
        "no_fodselsnummer", r"f[oø]dselsnummer|personnummer|\bfnr\b", r"\d{6}[ -]?\d{5}", fodselsnummer.is_valid
    ),
    _NationalId("pl_pesel", r"\bpesel\b", _digits(11), pesel.is_valid),
    _NationalId("pt_nif", r"\bnif\b|contribuinte|numero fiscal", _digits(9), nif.is_valid),
    _NationalId("ro_cnp", r"\bcnp\b|cod numeric personal", _digits(13), cnp.is_valid),
    _NationalId(
        "se_personnummer", r"person(?:nummer|nr)|samordningsnummer", r"(?:\d\d)?\d{6}[-+]?\d{4}", personnummer.is_valid
    ),
    _NationalId("si_emso", r"\bemso\b", _digits(13), emso.is_valid),
    _NationalId("tw_id", r"身[份分]證|national id", r"[A-Za-z][1289]\d{8}", _is_taiwanese),
    _NationalId("cn_ric", r"身份证|居民身份", r"[1-9]\d{16}[0-9Xx]", ric.is_valid),
)


def _detector(each: _NationalId) -> Detector:
    def accept(candidate: Candidate) -> bool:
        return not candidate.is_inside_longer_token() and each.is_valid(candidate.value)

    if each.words:
        return Detector(each.kind, "pii", rf"(?i:{each.words}){_BETWEEN}\b({each.form})\b", accept, overlapping=True)
    return Detector(each.kind, "pii", rf"\b{each.form}\b", accept)


NATIONAL_IDS: tuple[Detector, ...] = tuple(map(_detector, _IDS))
