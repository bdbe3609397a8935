"""What the policy sees of a request. Holds no text."""

from __future__ import annotations

from dataclasses import dataclass, field

from inference_protocol.request import Needs, Task
from routing_policies.signals.deadline import Deadline
from routing_policies.signals.hints import NO_HINTS, Hints
from routing_policies.signals.label import Label
from routing_policies.signals.size import Size


@dataclass(frozen=True, slots=True)
class Tenant:
    """Who calls, as far as policy is concerned."""

    id: str
    roles: frozenset[str] = frozenset()
    residency: str = ""


@dataclass(frozen=True, slots=True)
class RequestView:
    """The measured request.

    Attributes:
        model: The public model name.
        output_cap: Output tokens the request may take: its own cap, or the policy's default.
        cap_is_own: Whether the caller asked for that cap, so that it must fit the window with the prompt. A default
            need not: where less is left, the answer is cut to that.
    """

    task: Task
    model: str
    stream: bool
    needs: Needs
    label: Label
    deadline: Deadline
    size: Size
    output_cap: int
    cap_is_own: bool = True
    tenant: Tenant = field(default_factory=lambda: Tenant("local"))
    hints: Hints = NO_HINTS

    @property
    def reserved_output(self) -> int:
        """Output tokens that a window must have room for beside the prompt."""
        return self.output_cap if self.cap_is_own else 1
