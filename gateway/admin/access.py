"""Who may do what on the admin listener. Without keys it is whoever is on this machine, on a loopback host alone."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from gateway.access_settings import Auth
from gateway.identity import Identity
from inference_protocol.errors import PermissionDenied
from serving.listener import is_loopback


class Role(StrEnum):
    """What a key may do here, beside or instead of `inference`: change something, or only look."""

    OPERATOR = "operator"
    AUDITOR = "auditor"


class Access:
    """Lets callers in."""

    def __init__(self, auth: Auth) -> None:
        """Know the keys."""
        self._identity = Identity(auth)
        self._without_keys = not auth.keys

    def admit(self, fields: Mapping[str, str], needed: Role) -> str:
        """Return the id of a caller who may do what takes this role; an operator may do what an auditor may.

        Args:
            fields: The request's headers by lower-case name.
            needed: The role.

        Raises:
            AuthenticationFailed: Nobody knows the caller.
            PermissionDenied: The caller has no such role, or a web page asks in a person's name.
        """
        if self._without_keys:
            _refuse_pages(fields)
            return "local"
        principal = self._identity.identify(fields)
        if not {needed.value, Role.OPERATOR.value} & principal.tenant.roles:
            raise PermissionDenied(f"This takes a key with the role `{needed}`: see `auth.keys.*.roles`.")
        return principal.id


def _refuse_pages(fields: Mapping[str, str]) -> None:
    """A browser on this machine connects from this machine, for any page: by its address, or by a name that leads here.

    Raises:
        PermissionDenied: A page asks.
    """
    host = fields.get("host", "").rpartition("]")[0].removeprefix("[") or fields.get("host", "").partition(":")[0]
    if "origin" in fields or not is_loopback(host):
        raise PermissionDenied("Without keys, only programs on this machine are let in here, and no web pages.")
