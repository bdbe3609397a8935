"""The keys that hold now: those of the settings and those of the file, ready to be looked up at each request."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from gateway.access.key_file import StoredKey
from gateway.access_settings import ApiKey, Auth
from gateway.kept_settings import Permission
from gateway.principal import Principal
from inference_protocol.text_parts import UninspectableCause
from routing_policies.signals.label import Component, DataClass
from routing_policies.view import Tenant

_NO_DIGEST = b"\0" * 32


class Fault(StrEnum):
    """Why a credential does not hold: for the log, never for the caller."""

    UNKNOWN = "unknown"
    WRONG_SECRET = "wrong secret"  # noqa: S105  # no password, but what is said of one
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class _Held:
    """A key as it is compared.

    Attributes:
        digest: The secret's sha256.
        expires_at_s: Seconds since the epoch.
    """

    digest: bytes
    expires_at_s: float
    revoked: bool
    principal: Principal


class KeyRing:
    """Looks callers up by their keys."""

    def __init__(self, auth: Auth) -> None:
        """Hold the keys of the settings.

        Raises:
            ValueError: Two keys have the same id.
        """
        self._auth = auth
        self._held: dict[str, _Held] = {}
        self.replace(())

    @property
    def is_empty(self) -> bool:
        """Whether there is no key, and was none."""
        return not self._held

    @property
    def may(self) -> frozenset[Permission]:
        """What any key may ask for beside an answer."""
        return frozenset().union(*(held.principal.may for held in self._held.values()))

    def replace(self, stored: Iterable[StoredKey]) -> None:
        """Hold these keys beside those of the settings, instead of the ones before.

        Raises:
            ValueError: Two keys have the same id; then the ones before stay.
        """
        held: dict[str, _Held] = {}
        for key in (*self._auth.keys, *stored):
            if key.id in held:
                raise ValueError(f"two keys have the id {key.id}: one of `auth.keys`, and one of `tidegate keys`")
            held[key.id] = self._hold(key)
        self._held = held

    def find(self, key_id: str, secret: str, now_s: float) -> Principal | Fault:
        """Return whose key that is at this moment, in seconds since the epoch, or why it does not hold."""
        digest = hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
        held = self._held.get(key_id)
        # Compared also when the id is unknown, so that timing does not tell which ids exist.
        matches = hmac.compare_digest(digest, _NO_DIGEST if held is None else held.digest)
        if held is None:
            return Fault.UNKNOWN
        if not matches:
            return Fault.WRONG_SECRET
        if held.revoked:
            return Fault.REVOKED
        return Fault.EXPIRED if held.expires_at_s <= now_s else held.principal

    def of(self, key_id: str, now_s: float) -> Principal | None:
        """Return whose key it is, where it still holds: for what was asked with it before."""
        held = self._held.get(key_id)
        return None if held is None or held.revoked or held.expires_at_s <= now_s else held.principal

    def _hold(self, key: ApiKey) -> _Held:
        return _Held(
            bytes.fromhex(key.secret_sha256),
            float("inf") if key.expires_at is None else key.expires_at.timestamp(),
            isinstance(key, StoredKey) and key.revoked_at is not None,
            self._principal(key),
        )

    def _principal(self, key: ApiKey) -> Principal:
        tenant = Tenant(key.tenant, frozenset(key.roles), key.residency)
        own = {UninspectableCause(cause): DataClass.from_word(word) for cause, word in key.uninspected.items()}
        label = Component(key.level, frozenset(key.data_tags))
        allowance = None if key.is_unlimited else key
        return Principal(key.id, tenant, label, own, frozenset(key.may), allowance, self._auth.tenants.get(key.tenant))
