"""An issuer's public keys (JWKS, RFC 7517), read without trusting a word of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError

MOST_KEYS = 64
_LEAST_RSA_BITS = 2048
# Which kind of key each algorithm takes (RFC 7518 §3.1, RFC 8037): a key serves no other, whatever a token's head says.
_KIND_OF: Mapping[str, tuple[str, str | None]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}


class KeySetUnreadable(ValueError):
    """What came is no set of keys that can be used."""


class KeySet:
    """Public keys by id and algorithm."""

    def __init__(self, keys: Mapping[tuple[str | None, str], PyJWK]) -> None:
        """Hold these keys."""
        self._keys = keys
        self._by_algorithm: dict[str, list[PyJWK]] = {}
        for (_, algorithm), key in keys.items():
            self._by_algorithm.setdefault(algorithm, []).append(key)

    @classmethod
    def parse(cls, raw: bytes, algorithms: Collection[str]) -> KeySet:
        """Read a document, and leave out keys that are not for signatures by one of these algorithms, or too weak.

        Raises:
            KeySetUnreadable: It is no document of keys, holds too many, or none that can be used.
        """
        try:
            found = json.loads(raw)["keys"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise KeySetUnreadable("it is no JSON Web Key Set") from None
        if not isinstance(found, list) or len(found) > MOST_KEYS:
            raise KeySetUnreadable(f"it must list {MOST_KEYS} keys at most")
        keys: dict[tuple[str | None, str], PyJWK] = {}
        for each in found:
            if isinstance(each, dict):
                keys.update(_usable(each, algorithms))
        if not keys:
            raise KeySetUnreadable(f"it holds no key for {', '.join(algorithms)}")
        return cls(keys)

    def find(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        """Return the key that a token names; where it names none, the one that there is."""
        if key_id is None:
            fitting = self._by_algorithm.get(algorithm, [])
            return fitting[0] if len(fitting) == 1 else None
        return self._keys.get((key_id, algorithm))


def _usable(data: dict[str, Any], algorithms: Collection[str]) -> Iterator[tuple[tuple[str | None, str], PyJWK]]:
    key_id = data.get("kid")
    operations = data.get("key_ops", ["verify"])
    is_public = "d" not in data and data.get("use", "sig") == "sig"
    if not is_public or not isinstance(operations, list) or "verify" not in operations:
        return
    if not isinstance(key_id, str | None):
        return
    kind = data.get("kty"), data.get("crv")
    for algorithm in algorithms:
        if _KIND_OF[algorithm] == kind and data.get("alg", algorithm) == algorithm:
            try:
                key = PyJWK(data, algorithm=algorithm)
            except (PyJWTError, ValueError, TypeError):
                continue  # one bad key among good ones does not shut everybody out
            if not isinstance(key.key, RSAPublicKey) or key.key.key_size >= _LEAST_RSA_BITS:
                yield (key_id, algorithm), key
