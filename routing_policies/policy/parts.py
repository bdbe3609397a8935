"""What the parts of the policy document are made of: one kind of model, and the types of its values."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StringConstraints

from routing_policies.policy.errors import choice
from routing_policies.signals.label import DataClass


def _read_class(value: object) -> DataClass:
    if isinstance(value, DataClass):
        return value
    words = [c.word for c in DataClass]
    if not isinstance(value, str):
        raise ValueError(f"must be one of {', '.join(words)}")
    # Exactly as the JSON Schema has them, so that an editor and a start agree.
    if value not in words:
        raise ValueError(f"not `{value}`{choice(value, words)}")
    return DataClass.from_word(value)


ClassWord = Annotated[DataClass, BeforeValidator(_read_class), PlainSerializer(lambda c: c.word, return_type=str)]
Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=64)]
Text = Annotated[str, StringConstraints(max_length=200)]
FindingTag = Literal["pii", "phi", "pci", "secret"]
Milliseconds = Annotated[float, Field(gt=0, le=86_400_000)]
Share = Annotated[float, Field(ge=0, le=1)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Part(BaseModel):
    """A part of the document: frozen, exact types, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
