"""Checks bearer tokens of identity providers: JWT (RFC 7519) as RFC 8725 advises, signed by a key of their issuer.

The issuer is one that the settings name; the algorithm is one that the settings allow for it, and never one by which
whoever checks could sign. Nothing in a token's head leads anywhere: `jku`, `x5u` and `jwk` are not read.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jwt
from jwt.exceptions import PyJWTError

from gateway.access.claims import ClaimRefused, Claims
from gateway.access.issuer_keys import IssuerKeys
from gateway.access.key_sources import source_of
from gateway.access_settings import Auth
from gateway.issuer_settings import IssuerSettings
from gateway.principal import Principal

_LONGEST_TOKEN = 16 << 10
_MOST_REMEMBERED = 4096
_LATEST_S = 1e12


class TokenRefused(ValueError):
    """A token does not hold: for the log, never for the caller.

    Attributes:
        whose: Our name of the issuer, where the token names one of ours.
    """

    def __init__(self, why: str, whose: str = "no issuer of ours") -> None:
        """Say why."""
        super().__init__(why)
        self.whose = whose


@dataclass(frozen=True, slots=True)
class _Checked:
    """A token that held.

    Attributes:
        until: Seconds since the epoch.
        generation: Of the issuer's keys that it was checked with.
    """

    principal: Principal
    until: float
    keys: IssuerKeys
    generation: int


@dataclass(frozen=True, slots=True)
class _Issuer:
    name: str
    settings: IssuerSettings
    keys: IssuerKeys
    claims: Claims


class Tokens:
    """Checks tokens, and remembers those that held."""

    def __init__(self, auth: Auth, *, wall: Callable[[], float], clock: Callable[[], float]) -> None:
        """Check tokens of these issuers; `wall` gives seconds since the epoch, `clock` monotonic ones."""
        self._wall = wall
        self._issuers = {
            own.issuer: _Issuer(name, own, IssuerKeys(name, own, source_of(own), clock=clock), Claims(name, own, auth))
            for name, own in auth.issuers.items()
        }
        self._checked: dict[bytes, _Checked] = {}

    @staticmethod
    def looks_like_one(token: str) -> bool:
        """Whether that is a token and no key: three parts, of which the first is JSON in base64."""
        return token.count(".") == 2 and token.startswith("eyJ")

    def ask(self) -> None:
        """Have all keys fetched now."""
        for issuer in self._issuers.values():
            issuer.keys.ask()

    async def run(self) -> None:
        """Keep the issuers' keys fresh until cancelled."""
        async with asyncio.TaskGroup() as group:
            for issuer in self._issuers.values():
                group.create_task(issuer.keys.run(), name=f"issuer-{issuer.name}")

    async def aclose(self) -> None:
        """Close every connection."""
        for issuer in self._issuers.values():
            await issuer.keys.aclose()

    async def check(self, token: str) -> Principal:
        """Return the caller that a token stands for.

        Raises:
            TokenRefused: It does not hold.
            IssuerUnavailable: Nobody can tell now.
        """
        if len(token) > _LONGEST_TOKEN:
            raise TokenRefused("is too long")
        # By the digest of all of it: what two tokens share must never stand for both.
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known = self._checked.get(digest)
        now = self._wall()
        if known is not None and now < known.until and known.generation == known.keys.generation and known.keys.current:
            return known.principal
        found = await self._check(token)
        self._checked.pop(digest, None)
        if len(self._checked) >= _MOST_REMEMBERED:
            del self._checked[next(iter(self._checked))]
        self._checked[digest] = found
        return found.principal

    async def _check(self, token: str) -> _Checked:
        head, said = _unchecked(token)
        issuer = self._issuers.get(said) if isinstance(said, str) else None
        if issuer is None:
            raise TokenRefused("is of an issuer that the settings do not name")
        own = issuer.settings
        algorithm, key_id = head.get("alg"), head.get("kid")
        if algorithm not in own.algorithms:
            raise TokenRefused("is signed by an algorithm that is not allowed", issuer.name)
        if "crit" in head or not isinstance(key_id, str | None):
            raise TokenRefused("has a head that asks for what is not done here", issuer.name)
        key = await issuer.keys.find(key_id, algorithm)
        if key is None:
            raise TokenRefused("is signed by no key of its issuer", issuer.name)
        generation = issuer.keys.generation
        try:
            # Times are checked below, by the clock that everything here is checked by.
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=own.audiences,
                issuer=own.issuer,
                options={
                    "require": ["exp", "iss", "aud"],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_sub": False,
                },
            )
            until = _holds_until(claims, own.leeway_s, self._wall())
            principal = issuer.claims.principal(claims)
        except PyJWTError as exc:
            raise TokenRefused(f"does not hold ({type(exc).__name__})", issuer.name) from None
        except ClaimRefused as exc:
            raise TokenRefused(f"says too little: {exc}", issuer.name) from None
        return _Checked(principal, until, issuer.keys, generation)


def _unchecked(token: str) -> tuple[Mapping[str, Any], Any]:
    """The token's head, and who it says has issued it; nothing of it is to be believed."""
    try:
        found = jwt.decode_complete(token, options={"verify_signature": False})
    except (PyJWTError, ValueError, RecursionError):
        raise TokenRefused("cannot be read") from None
    return found["header"], found["payload"].get("iss")


def _holds_until(claims: Mapping[str, Any], leeway_s: float, now: float) -> float:
    """Return when it ends, in seconds since the epoch.

    Raises:
        ClaimRefused: It has ended, has not begun, or does not say when.
    """
    until = _moment(claims, "exp")
    if until + leeway_s <= now:
        raise ClaimRefused("it has expired")
    for name in ("nbf", "iat"):
        if name in claims and _moment(claims, name) - leeway_s > now:
            raise ClaimRefused(f"`{name}` lies ahead")
    return until + leeway_s


def _moment(claims: Mapping[str, Any], name: str) -> float:
    found = claims.get(name)
    if not isinstance(found, (int, float)) or isinstance(found, bool) or not 0 <= found < _LATEST_S:  # NaN is not
        raise ClaimRefused(f"`{name}` is no time")
    return float(found)
