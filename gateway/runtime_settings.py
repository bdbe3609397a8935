"""The runtimes that are started here, and what they serve. A part of the settings file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway.reach_settings import Frozen
from inference_protocol.provider_policy import ProviderPolicy
from routing_policies.signals.label import DataClass


class EdgeRuntimeSettings(Frozen):
    """The edge runtime that `tidegate up` and `tidegate edge serve` start.

    Attributes:
        slots: Requests that run at once; `auto` takes up to 8, as long as more give more tokens a second here.
        drafts: Whether to guess how an answer goes on and check several tokens at once, for a request that runs alone;
            `auto` does where that changes no answer.
        keep_prefixes: Highest class of requests whose prompts may leave keys and values on the disk; none leaves any.
        keep_prefixes_mib: Most of them.
        embedding_model: Of the store, for `/v1/embeddings`; loaded when it is first asked. None is served without it.
        embedding_keep_alive_s: After so long without a request it is unloaded.
        providers: Execution providers: which may run what, and how they are tried first.
        tensor_models: Of the store, for `/v2`, each loaded when it is first asked; targets know them by these names.
        tensor_keep_alive_s: After so long without a request each is unloaded.
    """

    model: str = "smollm2-135m-instruct-q4_1"
    slots: Annotated[int, Field(gt=0)] | Literal["auto"] = 4
    context: int = Field(default=2048, gt=0)
    threads: int | None = Field(default=None, gt=0)
    waiting_limit: int = Field(default=64, ge=0)
    keep_alive_s: float | None = Field(default=None, ge=0)
    unload_below_mib: int | None = Field(default=None, gt=0)
    drafts: Literal["auto", "on", "off"] = "auto"
    keep_prefixes: Literal["public", "internal", "confidential", "restricted"] | None = None
    keep_prefixes_mib: int = Field(default=512, gt=0)
    embedding_model: str | None = "all-minilm-l6-v2"
    embedding_keep_alive_s: float | None = Field(default=600.0, ge=0)
    providers: ProviderPolicy = ProviderPolicy()
    tensor_models: tuple[str, ...] = ()
    tensor_keep_alive_s: float | None = Field(default=600.0, ge=0)

    @property
    def keeps_prefixes(self) -> DataClass | None:
        """`keep_prefixes`, as a class."""
        return None if self.keep_prefixes is None else DataClass.from_word(self.keep_prefixes)


class CloudRuntimeSettings(Frozen):
    """The cloud stand-in that `tidegate up` starts while the target `cloud` points at this machine."""

    model: str = "smollm2-135m-instruct-f32"
    waiting_limit: int = Field(default=16, ge=0)
    embedding_model: str | None = "all-minilm-l6-v2-f32"
