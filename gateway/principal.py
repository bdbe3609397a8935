"""An authenticated caller: who it is, what may be done in its name, what all that it sends is labelled at least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.allowance import Allowance
from gateway.kept_settings import Permission
from inference_protocol.errors import PermissionDenied
from inference_protocol.text_parts import UninspectableCause
from routing_policies.signals.label import NOTHING, Component, DataClass
from routing_policies.view import Tenant


class Role(StrEnum):
    """What a caller may do. Policies may read further roles; to Tidegate itself they mean nothing."""

    INFERENCE = "inference"  # ask models, and fetch what was answered
    OPERATOR = "operator"  # change how the gateway runs, on the admin listener
    AUDITOR = "auditor"  # look, on the admin listener


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller.

    Attributes:
        id: The key's public id; `<issuer>:<subject>` of a token; or `local`.
        key_label: What everything that it sends is labelled at least.
        uninspected: Class by cause of what it sends and nobody can read, instead of the policy's.
        may: What it may ask for beside an answer.
        allowance: What it may take by itself; `None` where it has no limit.
        tenant_allowance: What all callers of its tenant may take together.
    """

    id: str
    tenant: Tenant
    key_label: Component = NOTHING
    uninspected: Mapping[UninspectableCause, DataClass] = field(default_factory=dict)
    may: frozenset[Permission] = frozenset()
    allowance: Allowance | None = None
    tenant_allowance: Allowance | None = None

    def check_may(self, permission: Permission, param: str) -> None:
        """Return if the caller may ask for that.

        Args:
            permission: What is asked for.
            param: The field or header that asks.

        Raises:
            PermissionDenied: They may not.
        """
        if permission not in self.may:
            setting = "auth.local_may" if self.id == LOCAL.id else "auth.keys[].may"
            raise PermissionDenied(f"This takes `{permission}` in the setting `{setting}` of this caller.", param=param)

    def check_role(self, *any_of: Role) -> None:
        """Return if the caller has one of these roles.

        Raises:
            PermissionDenied: It has none of them.
        """
        if self.tenant.roles.isdisjoint(any_of):
            raise PermissionDenied(f"This takes a caller with the role `{any_of[0]}`; an operator can give it.")


LOCAL = Principal("local", Tenant("local", frozenset({Role.INFERENCE.value})))
