"""Detectors of the second tier, which read what the scanner cannot. A part of the settings file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from gateway.egress.endpoint import Endpoint
from gateway.reach_settings import Frozen

Tag = Literal["pii", "phi", "pci", "secret"]


class PresidioSettings(Frozen):
    """Presidio with spaCy, in a process of its own.

    Attributes:
        entities: Presidio's name of a kind to the tag of such findings. Kinds that have a checksum are the scanner's.
        score: Findings below it do not count.
        timeout_s: For all texts of a request, waiting for its turn among it.
        start_timeout_s: For the process to load, which no request waits for.
        max_chars: Requests with more text are not read, since they would take longer than `timeout_s`.
        other_languages: Requests with a text that is not plainly English, the one language that the model knows: they
            could not be inspected (`uninspected`), or are read for what it finds all the same (`read`).
    """

    entities: dict[str, Tag] = Field(
        default={
            "PERSON": "pii",
            "LOCATION": "pii",
            "NRP": "pii",
            "US_DRIVER_LICENSE": "pii",
            "US_PASSPORT": "pii",
            "MEDICAL_LICENSE": "phi",
        },
        min_length=1,
    )
    score: float = Field(default=0.6, gt=0, le=1)
    timeout_s: float = Field(default=2.0, gt=0)
    start_timeout_s: float = Field(default=120.0, gt=0)
    max_chars: int = Field(default=16_000, gt=0)
    other_languages: Literal["uninspected", "read"] = "uninspected"


class ClassifierSettings(Frozen):
    """A text classifier behind the Open Inference Protocol V2, on this machine.

    Attributes:
        endpoint: `unix:/path` or `http://127.0.0.1:port`: it is sent the text of requests.
        model: Name of the model there: BYTES `text` in, BYTES `label` and, where it has one, FP32 `score` out.
        labels: Each label of the model to the tag that it means, or `clean`.
        score: Labels below it mean nothing.
        timeout_s: For all texts of a request.
    """

    endpoint: str
    model: str = Field(pattern=r"^[A-Za-z0-9._-]{1,128}$")
    labels: dict[str, Tag | Literal["clean"]] = Field(min_length=1)
    score: float = Field(default=0.5, ge=0, le=1)
    timeout_s: float = Field(default=0.5, gt=0)

    @field_validator("endpoint")
    @classmethod
    def _on_this_machine(cls, endpoint: str) -> str:
        return _on_this_machine(endpoint, "the text of requests")


class PictureSettings(Frozen):
    """Reading text in pictures, by two models of the edge runtime.

    Attributes:
        endpoint: Where the models are computed, `unix:/path` or `http://127.0.0.1:port`; the target `edge` by itself.
        detection_model: Name there of the model that finds where text stands.
        recognition_model: Name there of the one that reads it.
        max_pictures: Requests with more are not read on.
        max_bytes: Larger pictures are not read.
        max_pixels: Nor are those with more pixels, whatever they take as a file.
        timeout_s: For all pictures of a request, waiting for their turn among it.
        start_timeout_s: For the process that reads to start, which no request waits for.
    """

    endpoint: str | None = None
    detection_model: str = Field(default="ocr-detection", pattern=r"^[A-Za-z0-9._-]{1,128}$")
    recognition_model: str = Field(default="ocr-recognition", pattern=r"^[A-Za-z0-9._-]{1,128}$")
    max_pictures: int = Field(default=8, gt=0)
    max_bytes: int = Field(default=8 << 20, gt=0)
    max_pixels: int = Field(default=16_000_000, gt=0)
    timeout_s: float = Field(default=20.0, gt=0)
    start_timeout_s: float = Field(default=60.0, gt=0)

    @field_validator("endpoint")
    @classmethod
    def _on_this_machine(cls, endpoint: str | None) -> str | None:
        return None if endpoint is None else _on_this_machine(endpoint, "what pictures show")


def _on_this_machine(endpoint: str, what: str) -> str:
    if not Endpoint.parse(endpoint).is_this_machine:
        raise ValueError(
            f"{endpoint!r} is sent {what}, so it must be unix:/path or a loopback address such as http://127.0.0.1:8100"
        )
    return endpoint


class DetectorSettings(Frozen):
    """None runs unless it is named here."""

    presidio: PresidioSettings | None = None
    classifier: ClassifierSettings | None = None
    pictures: PictureSettings | None = None
