"""Content that is kept for a caller, sealed: ChaCha20-Poly1305 (RFC 8439) under a key for each request.

What a seal was made for is authenticated with it, so that nothing can be put in another's place.
"""

from __future__ import annotations

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from gateway.state.keys import Keys, Purpose, mac

_NONCE_BYTES = 12


class Unsealable(Exception):
    """It was sealed with another key or for another purpose, or is damaged."""


class Sealer:
    """Seals what belongs to one request."""

    def __init__(self, keys: Keys, tenant: str, request_id: str) -> None:
        """Take the key of a tenant's request."""
        key = mac(keys.derive(Purpose.KEPT, tenant), request_id.encode())
        self._cipher = ChaCha20Poly1305(key)

    def seal(self, content: bytes, what: str) -> bytes:
        """Return the content sealed as `what`."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, what.encode())

    def unseal(self, sealed: bytes, what: str) -> bytes:
        """Return the content again.

        Raises:
            Unsealable: It was not sealed as that, here, by this key.
        """
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], what.encode())
        except (InvalidTag, ValueError):
            raise Unsealable(
                f"the {what} of a kept request cannot be read: the installation's key is another"
            ) from None
