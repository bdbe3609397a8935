"""`GET /internal/state`: what a runtime of ours tells the gateway about itself, polled every 250 ms."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from inference_protocol.provider_policy import Work
from inference_protocol.request import GENERATES, Task


class RuntimeStatus(StrEnum):
    """Where a runtime stands in its life."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


class ServedModel(BaseModel):
    """One model a runtime serves.

    Attributes:
        id: The name it answers to.
        digest: sha256 over its files, hex.
        window: Most tokens of prompt and answer together in one slot, or of one input.
        tasks: What may be asked of it.
        dimensions: Length of its vectors, of a model that embeds.
        prompt_logprobs: Whether log probabilities of prompts are among those.
        parameters: Which of `capability.FURTHER_PARAMETERS` it knows.
        tokenizer_digest: sha256 of `tokenizer.json`, hex: equal digests count tokens alike.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    digest: str
    window: int = Field(gt=0)
    tasks: frozenset[Task] = GENERATES
    dimensions: int | None = None
    tools: bool = False
    json_schema: bool = False
    images: bool = False
    audio: bool = False
    logprobs: bool = False
    prompt_logprobs: bool = False
    max_n: int = 1
    parameters: frozenset[str] = frozenset()
    tokenizer_digest: str | None = None


class ProviderUse(BaseModel):
    """What runs one graph now.

    Attributes:
        model: Whose graph.
        work: What it is for.
        provider: The execution provider that the next run goes to.
        passed_over: The others that may run it by the settings, each with why it does not.
    """

    model_config = ConfigDict(frozen=True)

    model: str
    work: Work
    provider: str
    passed_over: dict[str, str] = Field(default_factory=dict)


class RuntimeState(BaseModel):
    """A snapshot of load and speed.

    Attributes:
        running: Requests in a slot.
        waiting: Requests admitted and not yet in a slot.
        waiting_limit: Most requests that may wait; one more is refused.
        prefill_tokens_queued: Prompt tokens still to be read, of waiting and running requests.
        slots: Requests that can run at once.
        ms_per_token: Batch size to milliseconds for one decode step of that many rows.
        prefill_tokens_per_s: How fast prompts are read, alone.
        drafted_tokens: Guessed and checked since the start.
        accepted_tokens: Those of them that the model said too.
        provider: The execution provider that really runs.
        providers: Of every graph that others than the CPU could run.
        detail: For a person: what is being waited for, or what failed.
    """

    model_config = ConfigDict(frozen=True)

    status: RuntimeStatus
    running: int = 0
    waiting: int = 0
    waiting_limit: int = 0
    prefill_tokens_queued: int = 0
    slots: int = 1
    ms_per_token: dict[int, float] = Field(default_factory=dict)
    prefill_tokens_per_s: float | None = None
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    models: tuple[ServedModel, ...] = ()
    provider: str = "unknown"
    providers: tuple[ProviderUse, ...] = ()
    detail: str | None = None
