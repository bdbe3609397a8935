"""Where traces and metrics go, and what they tell apart."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gateway.reach_settings import Frozen

# Generations of the conventions for generative AI: metrics of attempts were renamed between them.
GenAiConventions = Literal["genai-0.1", "semconv-1.41"]


class TelemetrySettings(Frozen):
    """Where traces and metrics go beside the state folder and the admin listener, and what they tell apart.

    Attributes:
        spool_bytes: What each program keeps on the disk of what the collector has not taken yet.
        log_format: What a line on standard error is.
        genai_conventions: Which names metrics of attempts have.
        metric_tenants: How many tenants metrics tell apart, the first that come; all others are `other`.
    """

    otlp_endpoint: str | None = None
    spool_bytes: int = Field(default=64 * 1024 * 1024, ge=64 * 1024)
    sample_ratio: float = Field(default=1.0, ge=0.0, le=1.0)
    trust_inbound_trace: bool = False
    log_format: Literal["text", "json"] = "text"
    genai_conventions: GenAiConventions = "genai-0.1"
    metric_tenants: int = Field(default=0, ge=0, le=1000)
