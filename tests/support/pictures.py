"""Pictures with text in them, as a camera or a screen gives them, and the parts of messages that carry them."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

from PIL import Image, ImageDraw, ImageFont


def picture_of(*lines: str, size: int = 24, wide: int = 640, dark: bool = False) -> Image.Image:
    """A white picture with black lines of text, or the other way round."""
    ground, ink = ("black", "white") if dark else ("white", "black")
    picture = Image.new("RGB", (wide, 40 + len(lines) * size * 2), ground)
    draw = ImageDraw.Draw(picture)
    for at, line in enumerate(lines):
        draw.text((24, 24 + at * size * 2), line, ink, ImageFont.load_default(size))
    return picture


def as_file(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """The bytes of a picture in a format."""
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def data_url(content: bytes, kind: str = "png") -> str:
    """A picture as it stands in a request."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def showing(*urls: str, text: str = "What is this?") -> Sequence[dict[str, Any]]:
    """The content of a message that shows pictures."""
    return [{"type": "text", "text": text}, *({"type": "image_url", "image_url": {"url": url}} for url in urls)]
