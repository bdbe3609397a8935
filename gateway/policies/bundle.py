"""A policy in one file with what is signed about it: a DSSE envelope over a manifest, and the policy's text.

The manifest names the text by its sha256, so whoever signs the one signs the other. Its version may only grow, so that
an old, looser bundle cannot be put in the place of a newer one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import orjson
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from gateway.policies.document import Document
from routing_policies.policy.errors import PolicyError
from serving.signatures import Envelope, PrivateKey, Signature

MANIFEST_KIND = "application/vnd.tidegate.policy-manifest+json"


class Manifest(BaseModel):
    """What is signed about a policy.

    Attributes:
        version: Grows with each bundle of this name.
        sha256: Of the policy's text, hex.
        expires: From when on it is not put in force any more.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(max_length=64)
    version: int = Field(ge=1)
    created: AwareDatetime
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    expires: AwareDatetime | None = None


class _Signature(BaseModel):
    model_config = ConfigDict(extra="forbid")

    keyid: str
    sig: str


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    payloadType: str
    payload: str
    signatures: tuple[_Signature, ...] = Field(max_length=64)
    policy: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle as it was read or made; who signed it is for others to tell."""

    manifest: Manifest
    envelope: Envelope
    policy: str

    @classmethod
    def make(cls, text: str, name: str, version: int, created: datetime, expires: datetime | None = None) -> Bundle:
        """Make a bundle that nobody has signed yet."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        manifest = Manifest(name=name, version=version, created=created, sha256=digest, expires=expires)
        return cls(manifest, Envelope(MANIFEST_KIND, manifest.model_dump_json().encode()), text)

    def signed(self, key: PrivateKey) -> Bundle:
        """Return the bundle with a signature more."""
        return replace(self, envelope=key.sign(self.envelope))

    def to_json(self) -> bytes:
        """The bundle as a file."""
        return orjson.dumps(
            {
                "payloadType": self.envelope.kind,
                "payload": base64.b64encode(self.envelope.payload).decode(),
                "signatures": signatures_as_json(self.envelope.signatures),
                "policy": self.policy,
            },
            option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
        )

    def refuse_expired(self, origin: str, now_s: float) -> None:
        """Return if it is still good, `now_s` seconds after the epoch.

        Raises:
            PolicyError: It is not.
        """
        expires = self.manifest.expires
        if expires is not None and expires <= datetime.fromtimestamp(now_s, UTC):
            raise PolicyError(origin, 1, 1, f"the bundle expired at {expires.isoformat()}; make and sign a new one")


def signatures_as_json(signatures: Sequence[Signature]) -> list[dict[str, str]]:
    """Signatures as DSSE writes them."""
    return [{"keyid": each.key_id, "sig": base64.b64encode(each.value).decode()} for each in signatures]


def signatures_from_json(found: Sequence[dict[str, str]]) -> tuple[Signature, ...]:
    """Read what `signatures_as_json` wrote.

    Raises:
        ValueError: It is something else.
    """
    try:
        return tuple(Signature(each["keyid"], base64.b64decode(each["sig"], validate=True)) for each in found)
    except KeyError as exc:
        raise ValueError(f"a signature has no {exc}") from None


def read_bundle(document: Document) -> Bundle | None:
    """Read a bundle; `None` for a document that is none.

    Raises:
        PolicyError: It is a damaged one, or its text is not what its manifest names.
    """
    if not document.raw.lstrip().startswith(b"{") or b'"payloadType"' not in document.raw:
        return None
    try:
        file = _File.model_validate_json(document.raw)
        envelope = Envelope(
            file.payloadType,
            base64.b64decode(file.payload, validate=True),
            signatures_from_json([each.model_dump() for each in file.signatures]),
        )
        manifest = Manifest.model_validate_json(envelope.payload)
    except (ValidationError, binascii.Error):
        raise _damaged(document, "the bundle is damaged or was cut off: make it again") from None
    if envelope.kind != MANIFEST_KIND:
        raise _damaged(document, f"its `payloadType` must be `{MANIFEST_KIND}`")
    if hashlib.sha256(file.policy.encode("utf-8", "surrogatepass")).hexdigest() != manifest.sha256:
        raise _damaged(document, "the policy in the bundle is not the one that its manifest names")
    return Bundle(manifest, envelope, file.policy)


def _damaged(document: Document, message: str) -> PolicyError:
    return PolicyError(document.origin, 1, 1, message)
