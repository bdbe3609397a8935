"""Who calls: whose key or token it is, or `local` where nobody must show a key and only this machine can connect."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from gateway.access.key_ring import Fault, KeyRing
from gateway.access.refusal_log import RefusalLog
from gateway.access.tokens import TokenRefused, Tokens
from gateway.access_settings import Auth
from gateway.kept_settings import Permission
from gateway.principal import LOCAL, Principal, Role
from inference_protocol import headers
from inference_protocol.errors import AuthenticationFailed
from serving.http_request import bearer_token

_HOW = "Send `Authorization: Bearer <key>` with a key or a token for this gateway."
# The same for whatever is unknown, wrong, expired or revoked: which it is, only the log says.
_DOES_NOT_HOLD = "This key or token does not hold. Ask the operator of this gateway for one that does."


class Identity:
    """Tells callers apart by their bearer token."""

    def __init__(
        self,
        auth: Auth,
        ring: KeyRing | None = None,
        tokens: Tokens | None = None,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up.

        Args:
            auth: Whether callers must show a key, and what `local` may.
            ring: The keys; without it, those of the settings.
            tokens: Checks tokens of identity providers; `None` where no issuer is named.
            wall: Seconds since the epoch, for what expires.
            clock: Monotonic seconds.
        """
        self._auth = auth
        self._ring = KeyRing(auth) if ring is None else ring
        self._tokens = tokens
        self._wall = wall
        self._log = RefusalLog(clock)
        self._local = replace(LOCAL, may=frozenset(auth.local_may))

    @property
    def lets_anybody_in(self) -> bool:
        """Whether nobody must show a key."""
        return self._ring.is_empty and not self._auth.is_promised

    async def admit(self, fields: Mapping[str, str], *any_of: Role) -> Principal:
        """Return a caller who has one of these roles.

        Args:
            fields: The request's headers by lower-case name.
            any_of: The roles.

        Raises:
            AuthenticationFailed: Callers must show a key or token, and this request carries none that holds.
            IssuerUnavailable: A token cannot be checked now.
            PermissionDenied: The caller has none of the roles.
        """
        principal = await self.identify(fields)
        principal.check_role(*any_of)
        return principal

    async def identify(self, fields: Mapping[str, str]) -> Principal:
        """Return the caller, whatever they may do.

        Raises:
            AuthenticationFailed: Callers must show a key or token, and this request carries none that holds.
            IssuerUnavailable: A token cannot be checked now.
        """
        if self.lets_anybody_in:
            return self._local
        token = bearer_token(fields.get(headers.AUTHORIZATION))
        if token is None:
            raise AuthenticationFailed(_HOW, param=headers.AUTHORIZATION)
        if self._tokens is not None and self._tokens.looks_like_one(token):
            return await self._of_token(self._tokens, token)
        key_id, _, secret = token.partition(".")
        found = self._ring.find(key_id, secret, self._wall())
        if isinstance(found, Fault):
            whose = "a key" if found is Fault.UNKNOWN else f"key {key_id}"
            self._log.refused(whose, found.value)
            raise AuthenticationFailed(_DOES_NOT_HOLD, param=headers.AUTHORIZATION)
        return found

    async def _of_token(self, tokens: Tokens, token: str) -> Principal:
        try:
            return await tokens.check(token)
        except TokenRefused as exc:
            self._log.refused(f"a token of {exc.whose}", str(exc))
            raise AuthenticationFailed(_DOES_NOT_HOLD, param=headers.AUTHORIZATION) from None

    def anybody_may(self, permission: Permission) -> bool:
        """Whether there is a caller who may ask for that beside an answer."""
        may = self._auth.local_may if self.lets_anybody_in else self._ring.may
        return permission in may

    def of(self, principal_id: str, tenant: str) -> Principal | None:
        """Return a caller that was let in before, as they are now; `None` where nobody is that any more."""
        found = self._local if self.lets_anybody_in else self._ring.of(principal_id, self._wall())
        return found if found is not None and (found.id, found.tenant.id) == (principal_id, tenant) else None
