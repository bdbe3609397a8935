"""The two models that read pictures, computed by the edge runtime over the Open Inference Protocol V2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from gateway.detectors.detector import DetectorFailed
from gateway.detectors.picture_text import Numbers
from gateway.egress.detector_door import DetectorDoor
from inference_protocol.errors import UpstreamError

# Probabilities of some thousand characters for each step of a line, and of some lines at once.
_LONGEST_ANSWER_BYTES = 64 << 20


class EdgeModels:
    """Asks for tensors at the door to this machine's edge runtime."""

    def __init__(self, door: DetectorDoor, *, detection: str, recognition: str, timeout_s: float) -> None:
        """Ask for these models there; nothing is asked yet."""
        self._door = door
        self._detection = detection
        self._recognition = recognition
        self._timeout_s = timeout_s
        self._characters: Sequence[str] = ()

    @property
    def characters(self) -> Sequence[str]:
        """What the classes of the model that reads stand for."""
        return self._characters

    async def learn(self) -> None:
        """Have the models loaded, and ask what the classes stand for, unless that is known.

        Raises:
            DetectorFailed: The edge does not say.
        """
        if self._characters:
            return
        try:
            answer = await self._door.ask("GET", f"/v2/models/{self._recognition}", timeout_s=self._timeout_s)
            labels = orjson.loads(answer.body)["properties"]["labels"]
        except UpstreamError as exc:
            raise DetectorFailed(f"the edge does not describe the model {self._recognition}: {exc.code}") from None
        except (ValueError, KeyError, TypeError):
            labels = None
        if not isinstance(labels, list) or not all(isinstance(each, str) for each in labels) or len(labels) < 2:
            raise DetectorFailed(f"the model {self._recognition} has no labels")
        self._characters = labels

    async def find(self, values: Numbers) -> Numbers:
        """Ask where text stands.

        Raises:
            DetectorFailed: The edge did not answer, or nonsense.
        """
        said = await self._infer(self._detection, values)
        if said.shape != (1, 1, *values.shape[2:]):
            raise DetectorFailed("the edge answered with another shape")
        return said

    async def recognise(self, values: Numbers) -> Numbers:
        """Ask what lines say.

        Raises:
            DetectorFailed: The edge did not answer, or nonsense.
        """
        said = await self._infer(self._recognition, values)
        if said.ndim != 3 or len(said) != len(values) or said.shape[2] != len(self._characters):
            raise DetectorFailed("the edge answered with another shape")
        return said

    async def _infer(self, model: str, values: Numbers) -> Numbers:
        tensor = {
            "name": "x",
            "shape": values.shape,
            "datatype": "FP32",
            "parameters": {"binary_data_size": values.nbytes},
        }
        head = orjson.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}})
        body = head + values.astype("<f4", copy=False).tobytes()
        try:
            answer = await self._door.ask(
                "POST",
                f"/v2/models/{model}/infer",
                body,
                json_bytes=len(head),
                timeout_s=self._timeout_s,
                max_bytes=_LONGEST_ANSWER_BYTES,
            )
            return _only_output(answer.body, answer.json_bytes)
        except UpstreamError as exc:
            raise DetectorFailed(f"the edge does not compute the model {model}: {exc.code}") from None
        except (ValueError, KeyError, TypeError):
            raise DetectorFailed("the edge did not answer with one tensor of numbers") from None


def _only_output(body: bytes, json_bytes: int | None) -> Numbers:
    """Read the one output of an answer, whose numbers follow its JSON."""
    if json_bytes is None:
        raise ValueError("nothing follows the JSON")
    head: Any = orjson.loads(body[:json_bytes])
    (output,) = head["outputs"]
    shape = [int(each) for each in output["shape"]]
    found = np.frombuffer(body, "<f4", offset=json_bytes)
    if output["datatype"] != "FP32" or len(found) != math.prod(shape) or not np.isfinite(found).all():
        raise ValueError("not the numbers that it says")
    return found.reshape(shape).astype(np.float32, copy=False)
