"""Credentials: those whose form gives them away, and values assigned to a name that says what they are.

Documentation is full of stand-ins (`sk-xxxx`, `password = os.environ["DB"]`): a value counts only where it could be
real.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections import Counter

from routing_policies.signals.detector import Candidate, Detector

_STAND_IN = re.compile(
    r"(?i)^[<$%{]|your|example|placeholder|change.?me|redacted|dummy|xxxx|\*\*\*|\.\.\.|"
    r"[a-z_]\(|environ|getenv|\b(?:process|settings|config|self|secrets?)\."
)
_TERM = re.compile(
    r"(?i)(?:base|sha|md|aes|utf|rs|hs|es|ed|rsa|argon|pbkdf|oauth|x|http|ipv|tls|v)[-_]?\d{1,5}\w{0,8}|"
    r"string|text|boolean|integer|number|null|none|true|false|required|optional|undefined"
)
_SIGNS = frozenset("!@#$%^&*()+=~?")
_NAME = re.compile(r"[A-Za-z_.]+")
_RUN = re.compile(r"[A-Za-z0-9]{8,}")
_LETTERS_AND_DIGITS = re.compile(r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])")
_DEFAULT_PASSWORDS = frozenset(
    "password pass secret postgres root admin user guest test mysql redis example changeme pw".split()
)
_NAMES_OF_KEYS = (
    r"(?:api|access|auth|secret|private|signing|encryption|account|master)[ _-]?(?:key|token|secret)|"
    r"client[ _-]?secret|token|secret|credentials?"
)
_NAMES_OF_PASSWORDS = r"password|passwd|passphrase|passcode|passwort|contrasena|mot de passe|pwd|kennwort|senha"
_ASSIGNED = r"""["'`]?[ \t]{0,4}(?::=|=>|->|[:=]|is)[ \t]{0,4}["'`]?"""

# In a sentence a few words may stand between a name and its value: `the PIN for the vault is ...`.
_NAMED_IN_A_SENTENCE = rf"(?:{_NAMES_OF_PASSWORDS}|pin)(?: [A-Za-z]{{1,12}}){{0,4}} is:? [\"'`]?"
_ASSIGNS = re.compile(rf"(?i)(?:{_NAMES_OF_KEYS}|{_NAMES_OF_PASSWORDS})[\"'`]?\s{{0,4}}[:=]|PRIVATE KEY-")
_UNPRONOUNCEABLE = re.compile(r"(?i)[bcdfghjklmnpqrstvwxz]{5}")
_HEX = re.compile(r"[0-9A-Fa-f]+")
_URL_SAFE = str.maketrans("-_", "+/")
_MOST_LINES_BEFORE = 3  # that look like a line of an encoded text and are words


def _could_be_real(value: str) -> bool:
    return len(set(value.lower())) > 4 and _STAND_IN.search(value) is None


def _is_token(candidate: Candidate) -> bool:
    """Accept a token whose prefix says enough, unless its body is filler."""
    body = max(re.split(r"[_-]", candidate.value), key=len)
    return body.strip("xX0.") != ""


def _is_sk_key(candidate: Candidate) -> bool:
    """Accept `sk-` with a body that no class name or file name has."""
    value = candidate.value
    return _could_be_real(value) and any(map(str.isdecimal, value)) and _entropy(value) > 3.5


def _is_jwt(candidate: Candidate) -> bool:
    header = candidate.value.partition(".")[0]
    try:
        decoded = json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    except (binascii.Error, ValueError):
        return False
    return isinstance(decoded, dict) and "alg" in decoded


def _is_assigned_key(candidate: Candidate) -> bool:
    """Accept a value with a run in it that is no word: `my-app-secret-2` and `src/v2/index` are names."""
    value = candidate.value
    return _could_be_real(value) and _entropy(value) >= 3.0 and any(map(_LETTERS_AND_DIGITS.match, _RUN.findall(value)))


def _is_quoted_key(candidate: Candidate) -> bool:
    """Accept a value with signs in it that names, paths and placeholders do not have."""
    value = candidate.value
    return _could_be_real(value) and _entropy(value) > 3.5 and len(_SIGNS.intersection(value)) > 1


def _is_assigned_password(candidate: Candidate) -> bool:
    value = candidate.value.rstrip(",:;.)}]")
    if _STAND_IN.search(value) or _TERM.fullmatch(value) or value.lower() in _DEFAULT_PASSWORDS:
        return False
    if candidate.fills_field:
        return len(value) >= 4
    return len(value) >= 6 and _NAME.fullmatch(value) is None


def _is_password_in_a_sentence(candidate: Candidate) -> bool:
    """Accept a value of letters, digits and a sign: what a sentence says of a password otherwise are words."""
    value = candidate.value.rstrip(",:;.!?)}]\"'`")
    kinds = any(map(str.isdecimal, value)), any(map(str.isalpha, value)), not _SIGNS.isdisjoint(value)
    return len(value) >= 6 and all(kinds) and "(" not in value and _could_be_real(value)


def _is_key_without_a_name(candidate: Candidate) -> bool:
    """Accept what nobody could pronounce and is no hash: behind the bare word `key` stand identifiers, too."""
    value = candidate.value
    return (
        _could_be_real(value)
        and _entropy(value) > 3.9
        and _LETTERS_AND_DIGITS.match(value) is not None
        and _UNPRONOUNCEABLE.search(value) is not None
        and _HEX.fullmatch(value) is None
    )


def _holds_a_secret(candidate: Candidate) -> bool:
    """Accept base64, in one line or several, of a text that assigns a secret."""
    lines = candidate.value.translate(_URL_SAFE).split()
    for first in range(min(len(lines), _MOST_LINES_BEFORE + 1)):
        encoded = "".join(lines[first:]).rstrip("=")
        decoded = base64.b64decode(encoded[: len(encoded) // 4 * 4])
        if decoded.isascii() and _ASSIGNS.search(decoded.decode("ascii")) is not None:
            return True
    return False


def _is_url_password(candidate: Candidate) -> bool:
    user = candidate.before.rpartition(b"//")[2].rstrip(b":").decode("utf-8", "replace")
    value = candidate.value
    return value != user and value.lower() not in _DEFAULT_PASSWORDS and _STAND_IN.search(value) is None


def _entropy(value: str) -> float:
    """Shannon entropy in bits per character."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())


SECRETS: tuple[Detector, ...] = (
    Detector("private_key", "secret", r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----"),
    Detector("aws_access_key_id", "secret", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    Detector(
        "aws_secret_access_key",
        "secret",
        rf"(?i)\baws[ _-]?(?:secret|session)[ _-]?(?:access[ _-]?)?(?:key|token){_ASSIGNED}([A-Za-z0-9/+]{{40}})\b",
        lambda candidate: _entropy(candidate.value) > 3.5,
    ),
    Detector(
        "github_token", "secret", r"\b(?:gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_[A-Za-z0-9_]{22,255})\b", _is_token
    ),
    Detector("gitlab_token", "secret", r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_.-]{16,255}", _is_token),
    Detector("slack_token", "secret", r"\bx(?:ox[abeoprs]|app)-[A-Za-z0-9-]{10,255}\b", _is_token),
    Detector(
        "slack_webhook",
        "secret",
        r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9]{6,16}/[A-Za-z0-9]{6,16}/[A-Za-z0-9]{16,32}",
    ),
    Detector("stripe_key", "secret", r"\b(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,255}\b", _is_token),
    Detector("anthropic_key", "secret", r"\bsk-ant-[A-Za-z0-9_-]{16,255}", _is_token),
    Detector("openai_key", "secret", r"\bsk-[A-Za-z0-9_-]{20,255}", _is_sk_key),
    Detector("google_api_key", "secret", r"\bAIza[A-Za-z0-9_-]{35}"),
    Detector("huggingface_token", "secret", r"\bhf_[A-Za-z0-9]{30,40}\b", _is_token),
    Detector("jwt", "secret", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}", _is_jwt),
    Detector(
        "url_password",
        "secret",
        r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[A-Za-z0-9._%+-]{0,64}:([!-.0-?A-~]{3,128})@[A-Za-z0-9]",
        _is_url_password,
    ),
    Detector(
        "password",
        "secret",
        rf"(?i)(?:\b|_)(?:{_NAMES_OF_PASSWORDS}){_ASSIGNED}([!#-&(-_a-~]{{4,128}})",
        _is_assigned_password,
    ),
    Detector(
        "password",
        "secret",
        r"(?:密[码碼]|口令|パスワード|비밀번호|암호)(?:是|は|는|은)?[ \t]{0,4}[:=]?[ \t]{0,4}[\"'`]?"
        r"([!#-&(-_a-~]{4,128})",
        _is_assigned_password,
    ),
    Detector("bearer_token", "secret", r"(?i)\bbearer[ \t]{1,4}([A-Za-z0-9_./+=~-]{16,255})", _is_assigned_key),
    Detector(
        "api_key",
        "secret",
        rf"(?i)(?:\b|_)(?:{_NAMES_OF_KEYS}){_ASSIGNED}(?:bearer )?([A-Za-z0-9_./+=-]{{16,255}})",
        _is_assigned_key,
    ),
    Detector(
        "api_key",
        "secret",
        rf"(?i)(?:\b|_)(?:{_NAMES_OF_KEYS})[ \t]{{0,4}}(?::=|=>|[:=])[ \t]{{0,4}}[\"']([!#-&(-~]{{16,128}})[\"']",
        _is_quoted_key,
    ),
    Detector("password", "secret", rf"(?i)\b{_NAMED_IN_A_SENTENCE}([!#-&(-_a-~]{{6,128}})", _is_password_in_a_sentence),
    Detector(
        "api_key",
        "secret",
        r"(?i)\b(?:key|token|secret|credential)(?: is)?[ \t:=]{1,3}[\"'`]?([A-Za-z0-9]{20,128})\b",
        _is_key_without_a_name,
    ),
    Detector(
        "encoded_secret",
        "secret",
        r"(?:(?:[A-Za-z0-9+/_-]{8,}\r?\n)+[A-Za-z0-9+/_-]{2,}|[A-Za-z0-9+/_-]{24,})={0,2}",
        _holds_a_secret,
    ),
    # As environments name what no list of vendors holds: `NIMBUS_KEY=...`.
    Detector(
        "api_key",
        "secret",
        r"\b[A-Z][A-Z0-9]{1,30}(?:_[A-Z0-9]{1,30}){0,4}_(?:KEY|TOKEN|SECRET|CREDENTIALS?)[ ]{0,2}[:=][ ]{0,2}[\"']?"
        r"([A-Za-z0-9_./+=-]{12,255})",
        _is_assigned_key,
    ),
)
