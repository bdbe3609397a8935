"""`tensors.json`: what a folder of graphs says of them beside what the graphs say themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runtime_server.model_manifest import ModelDamaged

FILE_NAME = "tensors.json"
FORMAT: Literal["onnx-tensors"] = "onnx-tensors"
NO_WINDOW = 1 << 30
"""What a manifest says of a model that reads no tokens."""


VersionName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,40}$")]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GraphVersion(_Frozen):
    """One version.

    Attributes:
        file: Of the graph, below the folder.
        batch_axes: By input and output, the axis that rows stand along. A tensor that is not named is the same for all
            rows of a batch; where an output is not, requests are computed one by one.
        labels: A file below the folder that says, line by line, what the places of an output's last axis stand for.
        states: By input that carries a state from request to request, the output that its next value comes from.
    """

    file: str
    batch_axes: dict[str, Annotated[int, Field(ge=0)]] = {}
    states: dict[str, str] = {}
    labels: str | None = None


class TensorDescription(_Frozen):
    """The content of the file.

    Attributes:
        versions: By the name that requests ask for; the first is served where they ask for none.
        most_rows: Of a batch of several requests.
        wait_ms: How long a request may wait for others to join it.
    """

    versions: Annotated[dict[VersionName, GraphVersion], Field(min_length=1)]
    most_rows: Annotated[int, Field(ge=1)] = 16
    wait_ms: Annotated[float, Field(ge=0, le=1000)] = 2.0


def read_description(folder: Path) -> TensorDescription:
    """Read it.

    Raises:
        ModelDamaged: It is missing, or cannot be read as one.
    """
    path = folder / FILE_NAME
    try:
        return TensorDescription.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ModelDamaged(f"{path} cannot be read: {error.strerror}.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "its content"
        raise ModelDamaged(f"{path} cannot be read: {where}: {first['msg']}.") from None
