"""How policies come into force, and who may say so. A part of the settings file."""

from __future__ import annotations

from typing import Self

from pydantic import Field, field_validator, model_validator

from gateway.reach_settings import Frozen
from serving.signatures import PublicKey


class ApproverSettings(Frozen):
    """A key whose signatures under policies count, and the person it belongs to."""

    person: str = Field(min_length=1, max_length=128)
    public_key: str

    @field_validator("public_key")
    @classmethod
    def _a_key(cls, text: str) -> str:
        return PublicKey.from_text(text).text

    @property
    def key(self) -> PublicKey:
        """The key."""
        return PublicKey.from_text(self.public_key)


class RolloutSettings(Frozen):
    """How policies come into force.

    Attributes:
        watch: Whether a changed policy file is reloaded by itself.
        require_signature: Whether only a bundle that an approver has signed is put in force.
        four_eyes: Whether a policy that is looser than the one in force needs the signatures of two people.
    """

    watch: bool = True
    require_signature: bool = False
    four_eyes: bool = False
    approvers: tuple[ApproverSettings, ...] = ()

    @model_validator(mode="after")
    def _somebody_can_sign(self) -> Self:
        people = {approver.person for approver in self.approvers}
        if self.four_eyes and len(people) < 2:
            raise ValueError("`four_eyes` needs `approvers` of at least two different people")
        if self.require_signature and not people:
            raise ValueError("`require_signature` needs `approvers`")
        keys = [approver.public_key for approver in self.approvers]
        if len(set(keys)) != len(keys):
            raise ValueError("approvers: a key belongs to one person; this one stands there twice")
        return self
