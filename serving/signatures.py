"""Signed statements: Ed25519 (RFC 8032) over DSSE envelopes (https://github.com/secure-systems-lab/dsse, v1.0.2).

What is signed is the payload's bytes with its type, so nothing has to be written canonically, and a signature of one
kind of statement says nothing of another kind.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_KEY_BYTES = 32


class KeyUnusable(ValueError):
    """A key is none of ours, or its file cannot be read. The message names no path of a private key."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that signatures are checked with.

    Attributes:
        raw: Its 32 bytes.
    """

    raw: bytes

    @classmethod
    def from_text(cls, text: str) -> PublicKey:
        """Read what `text` wrote.

        Raises:
            KeyUnusable: It is no key.
        """
        try:
            raw = base64.b64decode(text, validate=True)
            Ed25519PublicKey.from_public_bytes(raw)
        except (binascii.Error, ValueError):
            raise KeyUnusable(f"a public key is {_KEY_BYTES} bytes of Ed25519 in base64") from None
        return cls(raw)

    @property
    def text(self) -> str:
        """The key in base64, for settings."""
        return base64.b64encode(self.raw).decode("ascii")

    @property
    def id(self) -> str:
        """A short name: the beginning of its sha256, hex."""
        return hashlib.sha256(self.raw).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature.

    Attributes:
        key_id: Says which key to check it with, and nothing that anybody relies on.
    """

    key_id: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """A statement and who signed it.

    Attributes:
        kind: The payload's media type; a part of what is signed.
    """

    kind: str
    payload: bytes
    signatures: tuple[Signature, ...] = ()

    def signed_by(self, keys: Iterable[PublicKey]) -> list[PublicKey]:
        """Return those of `keys` that a valid signature here was made with."""
        return [key for key in keys if any(_is_valid(self, s, key) for s in self.signatures if s.key_id == key.id)]


class PrivateKey:
    """A key that signs."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        """Sign with this key."""
        self._key = key

    @classmethod
    def make(cls) -> PrivateKey:
        """Make a new key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> PrivateKey:
        """Read a key from a PEM file (PKCS#8, as `openssl genpkey -algorithm ed25519` writes it).

        Raises:
            KeyUnusable: The file cannot be read or holds no such key.
        """
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except OSError as exc:
            raise KeyUnusable(f"the private key cannot be read: {exc.strerror}") from None
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise KeyUnusable("the private key must be a PEM file (PKCS#8) without a password") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise KeyUnusable("the private key must be one of Ed25519")
        return cls(key)

    def save(self, path: Path) -> None:
        """Write the key to a new file that its owner alone may read.

        Raises:
            OSError: It cannot be written, or something stands there.
        """
        pem = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(pem)

    @property
    def public(self) -> PublicKey:
        """The key that checks what this one signs."""
        return PublicKey(self._key.public_key().public_bytes_raw())

    def sign(self, envelope: Envelope) -> Envelope:
        """Return the envelope with this key's signature added; one that it had from this key is replaced."""
        value = self._key.sign(_what_is_signed(envelope))
        others = [each for each in envelope.signatures if each.key_id != self.public.id]
        return replace(envelope, signatures=(*others, Signature(self.public.id, value)))


def _is_valid(envelope: Envelope, signature: Signature, key: PublicKey) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key.raw).verify(signature.value, _what_is_signed(envelope))
    except InvalidSignature:
        return False
    return True


def _what_is_signed(envelope: Envelope) -> bytes:
    """DSSE's pre-authentication encoding."""
    kind = envelope.kind.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(envelope.payload), envelope.payload)
