"""Identity providers whose tokens (JWT, RFC 7519) let callers in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from gateway.allowance import Allowance, ClassWord, Name
from gateway.egress.endpoint import Endpoint
from gateway.reach_settings import TlsSettings

# Signatures that only the issuer can make: not what whoever checks could make too (HS256), and not none at all.
Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]  # fmt: skip
ClaimName = Annotated[str, Field(pattern=r"^[^\s.]+(\.[^\s.]+)*$", max_length=200)]


class IssuerSettings(Allowance):
    """One issuer. Its limits are those of each of its callers.

    Attributes:
        issuer: The token's `iss`, letter by letter.
        audiences: One of them must be the token's `aud`.
        jwks_url: Where its keys are fetched; exactly one of this, `jwks_file` and `discover`.
        jwks_file: Its keys, for machines that cannot reach it; read again when it changes.
        discover: Whether `issuer` is asked where they are, at its `/.well-known/openid-configuration`.
        leeway_s: How far its clock and ours may be apart.
        refresh_s: How often keys are fetched.
        keys_hold_s: How long the last keys hold while it cannot be reached.
        tenant: Whose callers they are, where `tenant_claim` does not say.
        tenant_claim: The claim that names the tenant; a dot leads into an object, as in all of these.
        tenants: The names that `tenant_claim` may have; any where there are none.
        roles: What every caller of it is given.
        roles_claim: The claim that lists its own words for roles.
        role_of: What each of those words stands for here; others stand for nothing.
        class_claim: The claim that names the class of all that the caller sends, where it is higher than `data_class`.
        residency_claim: The claim for policies that read `tenant.residency`.
    """

    issuer: str = Field(min_length=1, max_length=500)
    audiences: tuple[str, ...] = Field(min_length=1)
    jwks_url: str | None = None
    jwks_file: Path | None = None
    discover: bool = False
    algorithms: tuple[Algorithm, ...] = Field(default=("RS256", "ES256"), min_length=1)
    leeway_s: float = Field(default=30.0, ge=0, le=300)
    refresh_s: float = Field(default=300.0, ge=1)
    keys_hold_s: float = Field(default=86_400.0, gt=0)
    tls: TlsSettings = TlsSettings()
    proxy: str | None = None
    subject_claim: ClaimName = "sub"
    tenant: Name | None = None
    tenant_claim: ClaimName | None = None
    tenants: tuple[Name, ...] = ()
    roles: tuple[str, ...] = ()
    roles_claim: ClaimName | None = None
    role_of: dict[str, str] = Field(default_factory=dict)
    data_class: ClassWord | None = None
    class_claim: ClaimName | None = None
    data_tags: tuple[str, ...] = ()
    residency: str = ""
    residency_claim: ClaimName | None = None
    # A request that waits is sent when its caller's token has long expired, so no token may put one off.
    may: tuple[Literal["finish"], ...] = ()

    @field_validator("jwks_url")
    @classmethod
    def _not_in_the_clear(cls, url: str | None) -> str | None:
        if url is not None:
            endpoint = Endpoint.parse(url)
            if endpoint.base.scheme != "https" and not endpoint.is_this_machine:
                raise ValueError(f"{url!r} must be https: whoever is on the way could answer with keys of their own")
        return url

    @field_validator("proxy")
    @classmethod
    def _a_proxy(cls, proxy: str | None) -> str | None:
        if proxy is not None and not Endpoint.parse(proxy).is_plain_http:
            raise ValueError(f"{proxy!r} must be http://host:port")
        return proxy

    @model_validator(mode="after")
    def _decided(self) -> Self:
        if [self.jwks_url is not None, self.jwks_file is not None, self.discover].count(True) != 1:
            raise ValueError("give exactly one of `jwks_url`, `jwks_file` and `discover`")
        if self.discover:
            self._not_in_the_clear(self.issuer)
        if (self.tenant is None) == (self.tenant_claim is None):
            raise ValueError("give exactly one of `tenant` and `tenant_claim`")
        if not self.roles and (self.roles_claim is None or not self.role_of):
            raise ValueError("nobody would have a role: give `roles`, or `roles_claim` with `role_of`")
        if (self.roles_claim is None) != (not self.role_of):
            raise ValueError("give both of `roles_claim` and `role_of`, or neither")
        return self
