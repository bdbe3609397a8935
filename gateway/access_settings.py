"""Who may call, and what they may ask for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BeforeValidator, Field

from gateway.allowance import Allowance, ClassWord, Name
from gateway.issuer_settings import IssuerSettings
from gateway.kept_settings import Permission
from gateway.reach_settings import Frozen
from routing_policies.signals.label import DataClass


def _in_utc(value: object) -> object:
    """YAML reads a moment without a zone as one of UTC."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


IssuerName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Moment = Annotated[AwareDatetime, BeforeValidator(_in_utc)]


class ApiKey(Allowance):
    """A caller's key: `<id>.<secret>` as a bearer token, of which only the secret's sha256 is kept here.

    Attributes:
        expires_at: From then on it does not hold.
        uninspected: Class of the images, audio and files that come with this key, instead of the policy's: whoever runs
            a door camera knows what its pictures show.
        may: What it may ask for beside an answer: that answers be finished without it, that requests be put off.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9_-]{4,64}$")
    secret_sha256: str = Field(pattern=r"^[0-9a-f]{64}$", repr=False)
    tenant: Name
    expires_at: Moment | None = None
    data_class: ClassWord | None = None
    data_tags: tuple[str, ...] = ()
    uninspected: dict[Literal["image", "audio", "blob"], ClassWord] = Field(default_factory=dict)
    residency: str = ""
    roles: tuple[str, ...] = ("inference",)
    may: tuple[Permission, ...] = ()

    @property
    def level(self) -> DataClass | None:
        """The class that everything sent with this key has at least."""
        return None if self.data_class is None else DataClass.from_word(self.data_class)


class Auth(Frozen):
    """Who may call. Where nobody must show anything every caller is the principal `local`, on a loopback address alone.

    Attributes:
        required: Whether callers must show a key also while there is none yet. Where there are any, they must.
        issuers: By a name of ours, those whose tokens let callers in too.
        tenants: What all callers of a tenant may take together.
        local_may: What `local` may ask for beside an answer.
    """

    required: bool = False
    keys: tuple[ApiKey, ...] = ()
    issuers: dict[IssuerName, IssuerSettings] = Field(default_factory=dict)
    tenants: dict[Name, Allowance] = Field(default_factory=dict)
    local_may: tuple[Permission, ...] = ()

    @property
    def is_promised(self) -> bool:
        """Whether these settings make callers show a key, whatever else there is."""
        return self.required or bool(self.keys) or bool(self.issuers)
