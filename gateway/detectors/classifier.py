"""Any text classifier behind the Open Inference Protocol V2 as a detector: a label for each text, which is its span."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from gateway.detector_settings import ClassifierSettings
from gateway.detectors.detector import DetectorFailed, Place
from gateway.egress.detector_door import DetectorDoor
from gateway.egress.endpoint import Endpoint
from inference_protocol.errors import UpstreamError

_CLEAN = "clean"


class ClassifierDetector:
    """Has a model on this machine label each text."""

    name = "classifier"

    def __init__(self, settings: ClassifierSettings) -> None:
        """Set up; nothing is opened yet."""
        self._settings = settings
        self.tags: frozenset[str] = frozenset(tag for tag in settings.labels.values() if tag != _CLEAN)
        self._door = DetectorDoor(Endpoint.parse(settings.endpoint), connect_timeout_s=settings.timeout_s)

    async def find(self, texts: Sequence[str]) -> list[list[Place]]:
        """Return, for each text that has a label other than clean, the whole of it.

        Raises:
            DetectorFailed: The model did not answer, or not in its own labels.
        """
        settings = self._settings
        tensor = {"name": "text", "shape": [len(texts)], "datatype": "BYTES", "data": list(texts)}
        body = orjson.dumps({"inputs": [tensor]})
        try:
            answer = await self._door.post(f"/v2/models/{settings.model}/infer", body, timeout_s=settings.timeout_s)
            outputs = _outputs(orjson.loads(answer))
        except UpstreamError as exc:
            raise DetectorFailed(exc.code) from None
        except orjson.JSONDecodeError:
            raise DetectorFailed("its answer is not JSON") from None
        labels = _data(outputs, "label", len(texts), str)
        scores = _data(outputs, "score", len(texts), (int, float)) if "score" in outputs else [1.0] * len(texts)
        return [self._places(*each) for each in zip(texts, labels, scores, strict=True)]

    async def run(self) -> None:
        """Run nothing: whoever serves the model does."""

    async def aclose(self) -> None:
        """Close its connections."""
        await self._door.aclose()

    def _places(self, text: str, label: str, score: float) -> list[Place]:
        tag = self._settings.labels.get(label)
        if tag is None:
            raise DetectorFailed("it answered with a label that the settings do not name")
        if tag == _CLEAN or score < self._settings.score:
            return []
        return [Place(label.lower(), tag, 0, len(text))]


def _outputs(tree: Any) -> Mapping[str, Any]:
    outputs = tree.get("outputs") if isinstance(tree, dict) else None
    if not isinstance(outputs, list):
        raise DetectorFailed("its answer holds no outputs")
    return {str(each["name"]): each for each in outputs if isinstance(each, dict) and "name" in each}


def _data(outputs: Mapping[str, Any], name: str, length: int, kind: type | tuple[type, ...]) -> list[Any]:
    data = outputs.get(name, {}).get("data")
    if not isinstance(data, list) or len(data) != length or not all(isinstance(each, kind) for each in data):
        raise DetectorFailed(f"its output `{name}` is not one value for each text")
    return data
