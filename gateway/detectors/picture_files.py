"""From what stands in a request to the pictures in it, within bounds, as rows of pixels.

What is a picture in any other way than whole, still, and of the format that it says it has counts as unreadable: nobody
could say what else whoever looks at it would see.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from inference_protocol.encoded_content import data_url_kinds

Pixels = NDArray[np.uint8]
_FORMATS = {"png": "PNG", "jpeg": "JPEG", "jpg": "JPEG", "webp": "WEBP", "gif": "GIF", "bmp": "BMP"}
_PICTURE = re.compile(r"data:image/([a-z0-9.+-]{1,32});base64,([A-Za-z0-9+/_-]*={0,2})", re.IGNORECASE)
_URL_SAFE = str.maketrans("-_", "+/")
# Beside a picture stands how it is meant. Whatever else stands there may be another picture, or lead to one.
_KEYWORDS = frozenset({"type", "detail"})
_KEYWORD = re.compile(r"[a-z_]{1,16}")


class Unreadable(Exception):
    """A picture, or what should be one, cannot be read. The message holds nothing of it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is still read: the bytes of a picture and its pixels, and how many pictures a request may hold."""

    picture_bytes: int
    pixels: int
    pictures: int


@dataclass(frozen=True, slots=True)
class Encoded:
    """A picture as it stands in a request: the format that it says it has, and base64."""

    kind: str
    base64: str


def pictures_in(content: Any, key: str | None = None) -> Iterator[Encoded]:
    """Yield the pictures of what could not be read as text: a string with data URLs in it, or the part of a message.

    Raises:
        Unreadable: It holds a picture that is elsewhere or not in base64, or something else than pictures.
    """
    if isinstance(content, dict):
        for name, value in content.items():
            yield from pictures_in(value, name)
    elif isinstance(content, list):
        for value in content:
            yield from pictures_in(value, "")
    elif isinstance(content, str) and not (key in _KEYWORDS and _KEYWORD.fullmatch(content)):
        found = [Encoded(each[1].lower(), each[2]) for each in _PICTURE.finditer(content)]
        is_text = key is None
        if len(found) != sum(kind == "image" for kind in data_url_kinds(content)):
            raise Unreadable("a data URL of a picture that is not in base64")
        if not is_text and _PICTURE.fullmatch(content) is None:
            raise Unreadable("a picture that does not stand in the request")
        yield from found


def pixels_of(encoded: Encoded, bounds: Bounds) -> list[Pixels]:
    """Decode a picture to (height, width, 3), on white; once more on black where some of it is transparent.

    Raises:
        Unreadable: It is too large, moves, is cut off, or is not what it says it is.
    """
    kind = _FORMATS.get(encoded.kind)
    if kind is None:
        raise Unreadable("a format that is not read")
    if len(encoded.base64) > (bounds.picture_bytes + 2) // 3 * 4:
        raise Unreadable("more bytes than `max_bytes`")
    try:
        content = base64.b64decode(encoded.base64.translate(_URL_SAFE), validate=True)
    except binascii.Error:
        raise Unreadable("no base64") from None
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(content), formats=[kind]) as image:
            warnings.simplefilter("error")
            return _decoded(image, kind, bounds)
    except UnidentifiedImageError:
        raise Unreadable("not the format that it says it has") from None
    except (OSError, ValueError, SyntaxError, EOFError, Warning, Image.DecompressionBombError, MemoryError) as exc:
        raise Unreadable(f"damaged ({type(exc).__name__})") from None


def _decoded(image: Image.Image, kind: str, bounds: Bounds) -> list[Pixels]:
    if image.format != kind:
        raise Unreadable("not the format that it says it has")  # several pictures in a JPEG, for one
    if image.width * image.height > bounds.pixels:
        raise Unreadable("more pixels than `max_pixels`")
    if getattr(image, "n_frames", 1) > 1:
        raise Unreadable("more than one picture in a file")
    image.load()
    if image.mode.startswith("I;16"):
        return [_rgb(Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)))]
    if image.mode in ("I", "F"):
        raise Unreadable("values that are no colours")
    upright = ImageOps.exif_transpose(image)
    if not upright.has_transparency_data:
        return [_rgb(upright)]
    layer = upright.convert("RGBA")
    return [_rgb(Image.alpha_composite(Image.new("RGBA", layer.size, below), layer)) for below in ("white", "black")]


def _rgb(image: Image.Image) -> Pixels:
    return np.asarray(image.convert("RGB"), np.uint8)
