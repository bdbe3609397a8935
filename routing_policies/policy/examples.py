"""The examples in a policy's file: a request, what is so at the time, and what the policy decides then.

Whatever a condition can read, an example can give.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from inference_protocol.request import Task
from inference_protocol.text_parts import UninspectableCause
from routing_policies.policy.parts import Amount, ClassWord, FindingTag, Milliseconds, Part, Text
from routing_policies.signals.hints import EffectiveType, Network
from routing_policies.snapshot import Connectivity, Health


class GivenLabel(Part):
    """The label of a test's request: what it declares, and what is found in it."""

    data_class: ClassWord | None = Field(default=None, alias="class")
    tags: tuple[Text, ...] = ()
    findings: tuple[FindingTag, ...] = ()
    causes: tuple[UninspectableCause, ...] = ()


class GivenRequest(Part):
    """What else is so of a test's request."""

    task: Task = Task.CHAT
    model: Text = "auto"
    stream: bool = True
    tools: bool = False
    json_schema: bool = Field(default=False, alias="schema")
    images: bool = False
    audio: bool = False
    output_cap: int | None = Field(default=None, ge=1)
    body_bytes: int | None = Field(default=None, ge=0)


class GivenTenant(Part):
    """Who calls in a test."""

    id: Text = "test"
    roles: tuple[Text, ...] = ()


class GivenClient(Part):
    """The hints of a test's caller."""

    save_data: bool = False
    network: Network = Network.UNKNOWN
    metered: bool = False
    effective_type: EffectiveType = EffectiveType.UNKNOWN
    battery_percent: float | None = Field(default=None, ge=0, le=100)
    charging: bool = False


class GivenDevice(Part):
    """The state of this device in a test."""

    connectivity: Connectivity = Connectivity.ONLINE
    free_memory_mb: Amount | None = None


class GivenTarget(Part):
    """The state of a target in a test."""

    health: Health = Health.UP
    window: int | None = Field(default=None, gt=0)
    waiting: int | None = Field(default=None, ge=0)
    ttft_ms: Milliseconds | None = None
    total_ms: Milliseconds | None = None


class Given(Part):
    """A test's request and what is so at the time."""

    label: GivenLabel = GivenLabel()
    total_ms: Milliseconds | None = None
    ttft_ms: Milliseconds | None = None
    tokens: int = Field(default=100, ge=0)
    request: GivenRequest = GivenRequest()
    tenant: GivenTenant = GivenTenant()
    residency: Text = ""
    client: GivenClient = GivenClient()
    device: GivenDevice = GivenDevice()
    targets: Mapping[str, GivenTarget] = {}


class Expect(Part):
    """What a test expects of the verdict. A field left out is not looked at."""

    target: str | None = None
    eligible: tuple[str, ...] | None = None
    rule: str | None = None


class PolicyTest(Part):
    """One example of what the policy decides; the start refuses a policy whose own example fails."""

    name: Text
    given: Given = Given()
    expect: Expect
