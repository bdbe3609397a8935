"""Who may call, and what they may ask for."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gateway.kept_settings import Permission
from gateway.reach_settings import Frozen
from routing_policies.signals.label import DataClass

ClassWord = Literal["public", "internal", "confidential", "restricted"]


class ApiKey(Frozen):
    """A caller's key: `<id>.<secret>` as a bearer token, of which only the secret's sha256 is kept here.

    Attributes:
        uninspected: Class of the images, audio and files that come with this key, instead of the policy's: whoever runs
            a door camera knows what its pictures show.
        may: What it may ask for beside an answer: that answers be finished without it, that requests be put off.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9_-]{4,64}$")
    secret_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    tenant: str = Field(min_length=1, max_length=128)
    data_class: ClassWord | None = None
    data_tags: tuple[str, ...] = ()
    uninspected: dict[Literal["image", "audio", "blob"], ClassWord] = Field(default_factory=dict)
    residency: str = ""
    roles: tuple[str, ...] = ("inference",)
    concurrent_requests: int | None = Field(default=None, gt=0)
    requests_per_minute: int | None = Field(default=None, gt=0)
    may: tuple[Permission, ...] = ()

    @property
    def level(self) -> DataClass | None:
        """The class that everything sent with this key has at least."""
        return None if self.data_class is None else DataClass.from_word(self.data_class)


class Auth(Frozen):
    """Who may call. Without keys every caller is the principal `local`, which only a loopback address allows.

    Attributes:
        local_may: What `local` may ask for beside an answer.
    """

    keys: tuple[ApiKey, ...] = ()
    local_may: tuple[Permission, ...] = ()
