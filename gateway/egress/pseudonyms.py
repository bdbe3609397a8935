"""Pseudonyms: values that detectors found are replaced by tokens before a body leaves, and put back in its answer.

A token is the kind of the value and a part of an HMAC over it, under a key of the tenant and the conversation's first
turn: `EMAIL_K3F9QXAB`. So a value has one token in every turn, worker and run; another conversation has another; and
nothing is stored, because each request's history is resent and its tokens are made again from that.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from gateway.state.keys import Keys, Purpose, mac
from inference_protocol.conversation import conversation
from inference_protocol.errors import EgressRefused
from inference_protocol.json_body import parse_object
from inference_protocol.json_strings import replace_strings, string_places
from inference_protocol.request import InferenceRequest, Task
from inference_protocol.text_parts import UninspectableCause
from routing_policies.signals.label import Finding, is_spoken
from routing_policies.signals.scanner import Scanner

_DIGEST_BYTES = 5  # eight characters of base32

Originals = Mapping[str, str]
"""Token to the value that it stands for."""


@dataclass(frozen=True, slots=True)
class Pseudonymized:
    """A request whose values were replaced, and what to put back in its answer."""

    request: InferenceRequest
    originals: Originals


class Pseudonymizer:
    """Replaces what one scanner finds. Used from any thread."""

    def __init__(self, scanner: Scanner, keys: Keys) -> None:
        """Replace what `scanner` finds, by tokens under `keys`."""
        self._scanner = scanner
        self._keys = keys

    def replace(self, request: InferenceRequest, tags: Collection[str], tenant: str) -> Pseudonymized:
        """Return the request with every finding of these tags replaced.

        Raises:
            EgressRefused: Something with these tags is still found in the result, or it could not be scanned.
        """
        scan = self._scanner.scan(request.text_parts())
        by_path: dict[str, list[Finding]] = {}
        for finding in scan.findings:
            if finding.tag in tags and is_spoken(finding.path):
                by_path.setdefault(finding.path, []).append(finding)
        key = self._keys.derive(Purpose.PSEUDONYM, tenant)
        texts = {
            place: json.loads(request.raw[place.start : place.end])
            for place in string_places(request.raw)
            if place.path in by_path
        }
        values = {place: _values(text, by_path[place.path], place.path) for place, text in texts.items()}
        tokens = _tokens(mac(key, _first_turn(request)), values.values(), request.raw)
        replaced = {place: _with_tokens(texts[place], values[place], tokens) for place in texts}
        raw = replace_strings(request.raw, replaced)
        result = replace(request, raw=raw, tree=parse_object(raw))
        self._check(result, tags, set(tokens.values()), scan.causes)
        return Pseudonymized(result, {token: value for (_, value), token in tokens.items()})

    def _check(
        self,
        request: InferenceRequest,
        tags: Collection[str],
        tokens: Collection[str],
        causes: frozenset[UninspectableCause],
    ) -> None:
        """Scan what was made; `causes` are those for which the original could not be read whole either."""
        parts = {part.path: part.text for part in request.text_parts() if isinstance(part.text, str)}
        scan = self._scanner.scan(request.text_parts())
        left = {
            finding.kind
            for finding in scan.findings
            if finding.tag in tags and parts.get(finding.path, "")[finding.start : finding.end] not in tokens
        }
        if left or not scan.causes <= causes:
            kinds = ", ".join(sorted(left)) or "something that cannot be read"
            raise EgressRefused(f"Nothing was sent: with its values replaced, the request still holds {kinds}.")


@dataclass(frozen=True, slots=True)
class _Value:
    """A value in a text: where it stands, what it is, and what it reads as."""

    start: int
    end: int
    kind: str
    meaning: str


def _values(text: str, findings: Iterable[Finding], path: str) -> list[_Value]:
    """Turn findings into values that do not overlap; the first of those that do names them all."""
    found: list[_Value] = []
    for finding in sorted(findings, key=lambda f: f.start):
        start, end, kind = finding.start, finding.end, finding.kind
        if found and start < found[-1].end:
            last = found.pop()
            start, end, kind = last.start, max(last.end, end), last.kind
        found.append(_Value(start, end, kind, _meaning(text[start:end], path)))
    return found


def _meaning(spelling: str, path: str) -> str:
    """Undo the escapes of JSON inside a string, so that a value has one token wherever it stands."""
    if not path.endswith(".arguments") or "\\" not in spelling:
        return spelling
    try:
        return str(json.loads(f'"{spelling}"'))
    except ValueError:
        return spelling


def _tokens(key: bytes, values: Iterable[Sequence[_Value]], raw: bytes) -> dict[tuple[str, str], str]:
    """Give each value of a request its token, by kind and meaning.

    A text that happens to hold a token, or was made to, must not have it replaced in the answer. So tokens that the
    request itself holds are passed over for all its values.
    """
    wanted = {(value.kind, value.meaning) for some in values for value in some}
    held = raw.decode("utf-8", "replace").upper()
    for attempt in count():
        tokens = {each: _token(key, attempt, *each) for each in wanted}
        if len(set(tokens.values())) == len(wanted) and not any(token in held for token in tokens.values()):
            return tokens
    raise AssertionError("unreachable")


def _token(key: bytes, attempt: int, kind: str, meaning: str) -> str:
    digest = mac(key, attempt.to_bytes(4, "big"), kind.encode(), meaning.encode("utf-8", "surrogatepass"))
    return f"{kind.replace('_', '').upper()}_{base64.b32encode(digest[:_DIGEST_BYTES]).decode()}"


def _with_tokens(text: str, values: Sequence[_Value], tokens: Mapping[tuple[str, str], str]) -> str:
    pieces: list[str] = []
    at = 0
    for value in values:
        pieces += [text[at : value.start], tokens[value.kind, value.meaning]]
        at = value.end
    return "".join([*pieces, text[at:]])


def _first_turn(request: InferenceRequest) -> bytes:
    """What identifies the conversation: its first turn that is no instruction, since those may carry today's date."""
    if request.task is Task.COMPLETION:  # each stands alone: another prompt has other tokens
        return json.dumps(request.tree["prompt"]).encode()
    turns = conversation(request.tree)
    first = next((turn for turn in turns if turn.role != "system"), None)
    return b"" if first is None else first.text.encode("utf-8", "surrogatepass")
