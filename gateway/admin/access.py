"""Who may do what on the admin listener. Without keys it is whoever is on this machine, on a loopback host alone."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.identity import Identity
from gateway.principal import Role
from inference_protocol.errors import PermissionDenied
from serving.listener import is_loopback


class Access:
    """Lets callers in."""

    def __init__(self, identity: Identity) -> None:
        """Tell callers apart by `identity`."""
        self._identity = identity

    async def admit(self, fields: Mapping[str, str], needed: Role) -> str:
        """Return the id of a caller who may do what takes this role; an operator may do what an auditor may.

        Args:
            fields: The request's headers by lower-case name.
            needed: The role.

        Raises:
            AuthenticationFailed: Nobody knows the caller.
            PermissionDenied: The caller has no such role, or a web page asks in a person's name.
        """
        if self._identity.lets_anybody_in:
            _refuse_pages(fields)
            return "local"
        return (await self._identity.admit(fields, needed, Role.OPERATOR)).id


def _refuse_pages(fields: Mapping[str, str]) -> None:
    """A browser on this machine connects from this machine, for any page: by its address, or by a name that leads here.

    Raises:
        PermissionDenied: A page asks.
    """
    host = fields.get("host", "").rpartition("]")[0].removeprefix("[") or fields.get("host", "").partition(":")[0]
    if "origin" in fields or not is_loopback(host):
        raise PermissionDenied("Without keys, only programs on this machine are let in here, and no web pages.")
