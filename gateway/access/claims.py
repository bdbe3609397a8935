"""From the claims of a token that was checked to the caller it stands for. What is missing or strange shuts it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.access_settings import Auth
from gateway.issuer_settings import IssuerSettings
from gateway.principal import Principal
from routing_policies.signals.label import Component, DataClass
from routing_policies.view import Tenant

_LONGEST_NAME = 256
_MOST_ROLES = 256


class ClaimRefused(ValueError):
    """A claim is not there, or is not what it must be. The message names the claim and not what it holds."""


class Claims:
    """Reads what tokens of one issuer say."""

    def __init__(self, name: str, settings: IssuerSettings, auth: Auth) -> None:
        """Read by these settings; `name` is ours for the issuer."""
        self._name = name
        self._own = settings
        self._tenants = auth.tenants

    def principal(self, claims: Mapping[str, Any]) -> Principal:
        """Return the caller.

        Raises:
            ClaimRefused: The token does not say what it must.
        """
        own = self._own
        # The colon stands in no key's id, so that no token can pass for a key.
        subject = f"{self._name}:{_text(claims, own.subject_claim)}"
        tenant = self._tenant(claims)
        residency = own.residency if own.residency_claim is None else _text(claims, own.residency_claim)
        return Principal(
            subject,
            Tenant(tenant, self._roles(claims), residency),
            Component(self._level(claims), frozenset(own.data_tags)),
            may=frozenset(own.may),
            allowance=None if own.is_unlimited else own,
            tenant_allowance=self._tenants.get(tenant),
        )

    def _tenant(self, claims: Mapping[str, Any]) -> str:
        own = self._own
        if own.tenant_claim is None:
            assert own.tenant is not None, "the settings give one of the two"
            return own.tenant
        tenant = _text(claims, own.tenant_claim)
        if own.tenants and tenant not in own.tenants:
            raise ClaimRefused(f"`{own.tenant_claim}` names a tenant that `tenants` does not")
        return tenant

    def _roles(self, claims: Mapping[str, Any]) -> frozenset[str]:
        own = self._own
        if own.roles_claim is None:
            return frozenset(own.roles)
        found = _at(claims, own.roles_claim)
        words = found.split() if isinstance(found, str) else found
        if not isinstance(words, list) or len(words) > _MOST_ROLES or not all(isinstance(w, str) for w in words):
            raise ClaimRefused(f"`{own.roles_claim}` is no list of words")
        return frozenset(own.roles) | {own.role_of[word] for word in words if word in own.role_of}

    def _level(self, claims: Mapping[str, Any]) -> DataClass | None:
        own = self._own
        words = [] if own.data_class is None else [own.data_class]
        try:
            levels = [DataClass.from_word(word) for word in words]
            if own.class_claim is not None:
                levels.append(DataClass.from_word(_text(claims, own.class_claim)))
        except (ValueError, KeyError):
            raise ClaimRefused(f"`{own.class_claim}` is no class of data") from None
        return max(levels, default=None)


def _at(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of that name; where there is none, what its parts lead to."""
    if name in claims:  # some issuers name claims by addresses, which have dots
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if found is None:
        raise ClaimRefused(f"it has no `{name}`")
    return found


def _text(claims: Mapping[str, Any], name: str) -> str:
    found = _at(claims, name)
    if not isinstance(found, str) or not 0 < len(found) <= _LONGEST_NAME or not found.isprintable():
        raise ClaimRefused(f"`{name}` is no text of 1 to {_LONGEST_NAME} characters")
    return found
