"""What the decision knows of the world: facts, state and predictions of the targets, the time and a seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from inference_protocol.request import GENERATES, Task
from inference_protocol.runtime_state import RuntimeState


class Health(StrEnum):
    """Whether a target can be asked now. Of one that rests or fails it is known when it will be asked again."""

    UP = "up"
    STARTING = "starting"
    DRAINING = "draining"
    DOWN = "down"
    RESTING = "resting"
    FAILING = "failing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Prediction:
    """How long a target is likely to take for this request.

    Attributes:
        ttft_ms: Median milliseconds to first content.
        total_ms: Median milliseconds to the end of the answer.
        ttft_spread: Standard deviation of the natural logarithm of `ttft_ms`; larger is less sure.
        total_spread: The same of `total_ms`; larger still, since nobody knows how long an answer gets.
        output_tokens: Expected tokens of the answer.
        base: The same two milliseconds before past errors corrected them, for the model to learn from.
    """

    ttft_ms: float
    total_ms: float
    ttft_spread: float
    total_spread: float
    output_tokens: float
    base: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a target's model can do with this request's public model name.

    Attributes:
        served_model: The name the target knows the model by; `None` where it does not serve it.
        window: Most tokens of prompt and answer together; `None` where nobody has said.
        tasks: What may be asked of it.
        parameters: Which of `capability.FURTHER_PARAMETERS` it knows.
    """

    served_model: str | None
    window: int | None = None
    tasks: frozenset[Task] = GENERATES
    tools: bool = False
    json_schema: bool = False
    images: bool = False
    audio: bool = False
    logprobs: bool = False
    max_n: int = 1
    parameters: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TargetSnapshot:
    """One target as the decision finds it.

    Attributes:
        state: What it last reported; `None` for targets that report nothing.
        capabilities: For the model asked for.
        prediction: `None` where there is nothing to predict from.
        back_in_s: Seconds until it can be asked again, where that is known.
        waiting: Requests that wait there for a free place; `None` where nobody has said.
    """

    name: str
    health: Health
    capabilities: Capabilities
    state: RuntimeState | None = None
    prediction: Prediction | None = None
    back_in_s: float | None = None
    waiting: int | None = None


class Connectivity(StrEnum):
    """How this device stands to the world outside.

    Attributes:
        ONLINE: What lies outside is reached as usual.
        DEGRADED: It is reached, but slower or less reliably than usual.
        METERED: It is reached over a link that costs by volume.
        CAPTIVE: Something on the way, such as a portal that wants a log-in, answers in its place.
        OFFLINE: Nothing outside is reached.
        COLD: Nothing outside has been asked yet.
    """

    ONLINE = "online"
    DEGRADED = "degraded"
    METERED = "metered"
    CAPTIVE = "captive"
    OFFLINE = "offline"
    COLD = "cold"


@dataclass(frozen=True, slots=True)
class Device:
    """The state of the device that this gateway runs on. Only preferences may look at it.

    Attributes:
        free_memory_mb: Megabytes (10^6 bytes) that processes could take without swapping; `None` where nobody can say.
    """

    connectivity: Connectivity = Connectivity.COLD
    free_memory_mb: float | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything beside policy and request that a decision may depend on.

    Attributes:
        targets: By name: those that settings say how to reach.
        now: Monotonic seconds.
        seed: Draws exploration and canaries.
    """

    targets: Mapping[str, TargetSnapshot]
    now: float
    seed: int = 0
    device: Device = Device()
