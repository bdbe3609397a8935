"""Who may do what on the admin listener. Without keys it is whoever is on this machine, on a loopback host alone."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.identity import Identity
from gateway.principal import Role


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
            PermissionDenied: The caller has no such role.
        """
        if self._identity.lets_anybody_in:
            return "local"
        return (await self._identity.admit(fields, needed, Role.OPERATOR)).id
