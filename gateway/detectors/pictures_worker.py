"""The process that reads pictures: decodes them, has the edge's models compute, and scans what it has read.

Decoders of pictures are native code that strangers feed, so they run here and not in the gateway. The process can
connect to the edge runtime and to nothing else, and its memory has a bound. What was read does not leave it: it answers
with kinds and places alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

from gateway.detector_settings import PictureSettings
from gateway.detectors.detector import DetectorFailed
from gateway.detectors.edge_models import EdgeModels
from gateway.detectors.picture_files import Bounds, Encoded, Unreadable, pictures_in, pixels_of
from gateway.detectors.picture_text import TooMuchText, text_in
from gateway.egress.detector_door import DetectorDoor
from gateway.egress.endpoint import Endpoint
from inference_protocol.text_parts import TextPart
from routing_policies.signals.scanner import Scanner, build_joined_scanner

_MEMORY_BYTES = 4 << 30  # of addresses, most of which are never used
_ASKING_OTHERS = frozenset({"socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"})


def main() -> None:
    """Serve until the input ends; the settings are the only argument, as JSON."""
    settings = PictureSettings.model_validate_json(sys.argv[1])
    assert settings.endpoint is not None, "the gateway says where"
    # What libraries print must not stand among the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    endpoint = Endpoint.parse(settings.endpoint)
    sys.addaudithook(_only(endpoint))
    reader = Reader(settings, endpoint, build_joined_scanner())
    with asyncio.Runner() as runner:
        answers.write('{"ready": true}\n')
        answers.flush()
        for line in sys.stdin.buffer:
            asked = json.loads(line)
            found = runner.run(reader.read(asked["contents"]))
            answers.write(json.dumps({"id": asked["id"], "found": found}) + "\n")
            answers.flush()


def _only(endpoint: Endpoint) -> Callable[[str, tuple[Any, ...]], None]:
    """A hook of the interpreter that lets connections be made to this endpoint and refuses all others."""
    allowed = endpoint.socket_path or (endpoint.base.host, endpoint.base.port)

    def refuse(event: str, args: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            address = args[1] if isinstance(args[1], str) else tuple(args[1][:2])
            if address != allowed:
                raise PermissionError("a detector connects to the edge runtime alone")
        elif event in _ASKING_OTHERS:
            raise PermissionError(f"{event}: a detector connects to the edge runtime alone")

    return refuse


class Reader:
    """Reads what could not be read as text."""

    def __init__(self, settings: PictureSettings, endpoint: Endpoint, scanner: Scanner) -> None:
        """Open nothing yet."""
        self._bounds = Bounds(settings.max_bytes, settings.max_pixels, settings.max_pictures)
        door = DetectorDoor(endpoint, connect_timeout_s=settings.timeout_s)
        self._models = EdgeModels(
            door,
            detection=settings.detection_model,
            recognition=settings.recognition_model,
            timeout_s=settings.timeout_s,
        )
        self._scanner = scanner

    async def read(self, contents: list[Any]) -> list[dict[str, Any]]:
        """Return for each content what was found in its pictures, and why some of it could not be read."""
        left = self._bounds.pictures
        found = []
        for content in contents:
            each: dict[str, Any] = {"places": []}
            try:
                pictures = list(pictures_in(content))
                left -= len(pictures)
                if not pictures or left < 0:
                    raise Unreadable("more pictures than `max_pictures`" if pictures else "no picture")
                for picture in pictures:
                    each["places"] += await self._places(picture)
            except Unreadable as exc:
                each["failed"] = f"a picture is unreadable: {exc}"
            except DetectorFailed as exc:
                each["failed"] = str(exc)
            except TooMuchText:
                each["failed"] = "a picture holds more lines than are read"
            found.append(each)
        return found

    async def _places(self, picture: Encoded) -> list[tuple[str, str, int, int]]:
        layers = await asyncio.to_thread(pixels_of, picture, self._bounds)
        await self._models.learn()
        texts = dict.fromkeys([await text_in(layer, self._models) for layer in layers])
        places: dict[tuple[str, str, int, int], None] = {}
        for text in texts:
            places.update(dict.fromkeys(self._scan(text)))
        return list(places)

    def _scan(self, text: str) -> list[tuple[str, str, int, int]]:
        """Scan a text as it was read, and for what else is found once no space cuts a word."""
        found = self._places_in(text)
        known = {kind for kind, *_ in found}
        return found + [each for each in self._places_in(without_spaces(text)) if each[0] not in known]

    def _places_in(self, text: str) -> list[tuple[str, str, int, int]]:
        scan = self._scanner.scan([TextPart("picture", None, text)])
        if scan.causes:
            raise DetectorFailed("what was read could not be scanned")
        return [(each.kind, each.tag, each.start, each.end) for each in scan.findings]


def without_spaces(text: str) -> str:
    """Join what spaces cut, except numbers, which would look like others."""
    words = text.split(" ")
    joined = words[0]
    for word in words[1:]:
        is_between_digits = joined[-1:].isdigit() and word[:1].isdigit()
        joined += f" {word}" if is_between_digits else word
    return joined


if __name__ == "__main__":
    main()
