"""Who calls: a key's principal, or `local` where no keys are set and only this machine can connect."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gateway.access_settings import ApiKey, Auth
from gateway.kept_settings import Permission
from inference_protocol import headers
from inference_protocol.errors import AuthenticationFailed, PermissionDenied
from inference_protocol.text_parts import UninspectableCause
from routing_policies.signals.label import NOTHING, Component, DataClass
from routing_policies.view import Tenant
from serving.http_request import bearer_token


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller.

    Attributes:
        id: The key's public id, or `local`.
        key_label: What everything sent with this key is labelled at least.
        uninspected: Class by cause of what this key sends and nobody can read, instead of the policy's.
        may: What it may ask for beside an answer.
    """

    id: str
    tenant: Tenant
    key_label: Component = NOTHING
    uninspected: Mapping[UninspectableCause, DataClass] = field(default_factory=dict)
    may: frozenset[Permission] = frozenset()

    def check_may(self, permission: Permission, param: str) -> None:
        """Return if the caller may ask for that.

        Args:
            permission: What is asked for.
            param: The field or header that asks.

        Raises:
            PermissionDenied: They may not.
        """
        if permission not in self.may:
            setting = "auth.local_may" if self.id == LOCAL.id else "auth.keys[].may"
            raise PermissionDenied(f"This takes `{permission}` in the setting `{setting}` of this caller.", param=param)


LOCAL = Principal("local", Tenant("local", frozenset({"inference"})))


class Identity:
    """Tells callers apart by their bearer token."""

    def __init__(self, auth: Auth) -> None:
        """Index the keys by their public ids."""
        self._keys = {key.id: key for key in auth.keys}
        self._principals = {key.id: _principal(key) for key in auth.keys}
        self._local = replace(LOCAL, may=frozenset(auth.local_may))

    def identify(self, fields: Mapping[str, str]) -> Principal:
        """Return the caller.

        Raises:
            AuthenticationFailed: Keys are set and the request carries none of them.
        """
        if not self._keys:
            return self._local
        token = bearer_token(fields.get(headers.AUTHORIZATION))
        if token is None:
            raise AuthenticationFailed("Send `Authorization: Bearer <key id>.<secret>`.", param=headers.AUTHORIZATION)
        key_id, _, secret = token.partition(".")
        digest = hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
        key = self._keys.get(key_id)
        # Compared also when the id is unknown, so that timing does not tell which ids exist.
        matches = hmac.compare_digest(digest, key.secret_sha256 if key else "0" * 64)
        if key is None or not matches:
            raise AuthenticationFailed("This key is not known.", param=headers.AUTHORIZATION)
        return self._principals[key.id]

    def of(self, principal_id: str, tenant: str) -> Principal | None:
        """Return a caller that was let in before, as they are now; `None` where nobody is that any more."""
        found = self._principals.get(principal_id) if self._keys else self._local
        return found if found is not None and (found.id, found.tenant.id) == (principal_id, tenant) else None


def _principal(key: ApiKey) -> Principal:
    tenant = Tenant(key.tenant, frozenset(key.roles), key.residency)
    own = {UninspectableCause(cause): DataClass.from_word(word) for cause, word in key.uninspected.items()}
    return Principal(key.id, tenant, Component(key.level, frozenset(key.data_tags)), own, frozenset(key.may))
