"""What counts as a picture in a request, and what is read of it before any model sees it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from gateway.detector_settings import PictureSettings
from gateway.detectors.picture_files import Bounds, Encoded, Unreadable, pictures_in, pixels_of
from gateway.detectors.picture_text import boxes_in
from gateway.detectors.pictures import PictureDetector
from gateway.detectors.pictures_worker import without_spaces
from tests.support.pictures import as_file, data_url, picture_of

BOUNDS = Bounds(picture_bytes=1 << 20, pixels=1_000_000, pictures=2)
PICTURE = as_file(picture_of("tide"))
URL = data_url(PICTURE)


def encoded(url: str) -> Encoded:
    (found,) = pictures_in(url)
    return found


@pytest.mark.parametrize(
    "content",
    [
        {"image_url": {"url": URL, "detail": "high"}},
        {"content": {"type": "image_url", "image_url": {"url": URL}}},
        {"content": {"type": "input_image", "image_url": URL, "detail": "auto"}},
        {"images": [URL]},
        f"A picture ![tide]({URL}) in a text",
        URL.replace("data:image/png", "DATA:IMAGE/PNG"),
    ],
)
def test_a_picture_is_found_wherever_it_may_stand(content: Any) -> None:
    (found,) = pictures_in(content)
    assert pixels_of(found, BOUNDS)[0].shape == (88, 640, 3)


@pytest.mark.parametrize(
    "content",
    [
        {"image_url": {"url": "https://pictures.corp.com/7.png"}},
        {"image_url": {"url": URL, "fallback": "https://pictures.corp.com/7.png"}},
        {"image_url": {"url": URL, "detail": "https://pictures.corp.com/7.png"}},
        {"image_url": {"url": URL + " and more"}},
        {"image_embeds": "AAAA"},
        {"file_id": "file-7"},
        "data:image/svg+xml,%3Csvg/%3E",
        f"{URL} and data:image/png,raw",
        f"data:image/png;charset=utf-8;base64,{URL.partition(',')[2]}",
    ],
)
def test_whatever_else_stands_beside_a_picture_or_in_its_place_is_unreadable(content: Any) -> None:
    with pytest.raises(Unreadable):
        list(pictures_in(content))


def test_a_picture_is_seen_as_it_is_shown() -> None:
    turned = Image.new("RGB", (20, 10), "red")
    turned.getexif()[0x0112] = 6  # as a telephone writes what it held upright
    exif = turned.getexif()
    assert pixels_of(encoded(data_url(as_file(turned, "JPEG", exif=exif), "jpeg")), BOUNDS)[0].shape == (20, 10, 3)
    clear = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    assert [int(each.max()) for each in pixels_of(encoded(data_url(as_file(clear))), BOUNDS)] == [255, 0]
    deep = Image.fromarray(np.full((4, 4), 0x8000, np.uint16))
    assert pixels_of(encoded(data_url(as_file(deep))), BOUNDS)[0].tolist() == [[[128] * 3] * 4] * 4


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_still_pictures_of_these_formats_are_read(kind: str) -> None:
    file = as_file(picture_of("tide"), kind)
    assert pixels_of(encoded(data_url(file, kind.lower())), BOUNDS)[0].shape == (88, 640, 3)
    with pytest.raises(Unreadable):
        pixels_of(encoded(data_url(file[: len(file) // 2], kind.lower())), BOUNDS)


def test_bounds_are_kept_before_a_picture_is_decoded() -> None:
    with pytest.raises(Unreadable, match="max_pixels"):
        pixels_of(encoded(URL), Bounds(1 << 20, 640 * 88 - 1, 1))
    with pytest.raises(Unreadable, match="max_bytes"):
        pixels_of(encoded(URL), Bounds(len(PICTURE) - 3, 1_000_000, 1))
    assert pixels_of(encoded(URL), Bounds(len(PICTURE), 640 * 88, 1))


def test_several_pictures_in_one_file_are_not_read() -> None:
    frames = {"save_all": True, "append_images": [picture_of("other")]}
    for kind in ("PNG", "GIF", "WEBP"):
        with pytest.raises(Unreadable, match="more than one"):
            pixels_of(encoded(data_url(as_file(picture_of("one"), kind, **frames), kind.lower())), BOUNDS)
    with pytest.raises(Unreadable, match="not the format"):
        pixels_of(encoded(data_url(as_file(picture_of("one"), "MPO", **frames), "jpeg")), BOUNDS)


def test_boxes_are_grown_and_brought_to_the_size_of_the_picture() -> None:
    likely = np.zeros((1, 1, 64, 128), np.float32)
    likely[0, 0, 20:30, 20:100] = 0.9
    likely[0, 0, 50:60, 20:100] = 0.4  # not sure enough for a box
    (box,) = boxes_in(likely, 128, 256)
    assert np.allclose(box.corners.mean(axis=0), [119, 49], atol=1)
    assert 158 < box.corners[1, 0] - box.corners[0, 0] < 200
    assert 20 < box.height < 60


def test_spaces_are_lost_but_between_digits() -> None:
    assert without_spaces("Write tojane@ corp.com 12 34 x") == "Writetojane@corp.com12 34x"
    assert without_spaces("") == ""


def test_the_models_are_on_this_machine() -> None:
    with pytest.raises(ValidationError, match="what pictures show"):
        PictureSettings(endpoint="https://models.corp.com")
    with pytest.raises(ValueError, match=r"detectors\.pictures\.endpoint"):
        PictureDetector.of(PictureSettings(), ["https://edge.corp.com"])
    assert PictureDetector.of(PictureSettings(), ["https://edge.corp.com", "unix:/run/edge.sock"])
