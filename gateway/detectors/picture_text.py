"""From a picture to the lines of text in it, by two models: one tells where text stands, the other reads a line.

What is done before and after the models is what PP-OCR's authors do (PaddleOCR's `DBPostProcess` and `CTCLabelDecode`),
and a line that makes little sense is read upside down, too. Lines that stand side by side become one row, from left to
right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Numbers = NDArray[np.float32]

# PP-OCR's own figures: how sure the first model must be of a pixel and of a box, and by how much a box is too small.
_TEXT_PIXEL, _TEXT_BOX, _GROW = 0.3, 0.5, 1.6
_SMALLEST_SIDE = 3
_STEP = 32  # the first model takes sides that are multiples of it
_SHORT_SIDE, _LONG_SIDE = 736, 1600
_LINE_HEIGHT, _LONGEST_LINE = 48, 3200
_UPRIGHT = 1.5  # a box that much higher than wide holds a line that runs up or down
_SURE = 0.85  # a line that is read with less is tried upside down
_MOST_LINES = 400


class TooMuchText(Exception):
    """There are more lines in a picture than are read."""


class Box(NamedTuple):
    """A line's place: its corners from the upper left one on, clockwise, in pixels."""

    corners: Numbers

    @property
    def left(self) -> float:
        """Where it begins."""
        return float(self.corners[:, 0].min())

    @property
    def middle(self) -> float:
        """How far down it stands."""
        return float(self.corners[:, 1].mean())

    @property
    def height(self) -> float:
        """Of its letters."""
        return float(np.linalg.norm(self.corners[3] - self.corners[0]))


class Read(NamedTuple):
    """What was read of a line, and how sure the model is of its characters."""

    text: str
    sureness: float


class Models(Protocol):
    """The two models, wherever they are computed."""

    @property
    def characters(self) -> Sequence[str]:
        """What the classes of the second model stand for; the first is no character."""
        ...

    async def find(self, values: Numbers) -> Numbers:
        """Say of each pixel of (1, 3, height, width) how likely it is of text: (1, 1, height, width)."""
        ...

    async def recognise(self, values: Numbers) -> Numbers:
        """Say of each step of lines (n, 3, 48, width) how likely each character is: (n, steps, characters)."""
        ...


async def text_in(picture: Pixels, models: Models) -> str:
    """Read a picture of (height, width, 3).

    Raises:
        TooMuchText: There are more lines than are read.
    """
    boxes = boxes_in(await models.find(_values(_fitted(picture))[None]), picture.shape[0], picture.shape[1])
    if len(boxes) > _MOST_LINES:
        raise TooMuchText
    lines = [_straightened(picture, box) for box in boxes]
    reads = await _read(lines, models)
    doubtful = [at for at, each in enumerate(reads) if each.sureness < _SURE]
    turned = await _read([np.ascontiguousarray(lines[at][::-1, ::-1]) for at in doubtful], models)
    for at, other in zip(doubtful, turned, strict=True):
        reads[at] = max(reads[at], other, key=lambda each: each.sureness)
    return "\n".join(" ".join(reads[at].text for at in row if reads[at].text) for row in _rows(boxes))


async def _read(lines: Sequence[Pixels], models: Models) -> list[Read]:
    reads: dict[int, Read] = {}
    for together in _batches([line.shape[1] for line in lines]):
        said = await models.recognise(_padded([_values(lines[at]) for at in together]))
        reads.update(zip(together, (_spelled(steps, models.characters) for steps in said), strict=True))
    return [reads[at] for at in range(len(lines))]


def boxes_in(said: Numbers, height: int, width: int) -> list[Box]:
    """Return the boxes of text in what the first model says, as they stand in a picture of that size."""
    likely = said[0, 0]
    scale = np.array([width / likely.shape[1], height / likely.shape[0]], np.float32)
    outlines, _ = cv2.findContours((likely > _TEXT_PIXEL).astype(np.uint8), cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    found = []
    for outline in outlines:
        middle, (wide, high), angle = cv2.minAreaRect(outline)
        if min(wide, high) < _SMALLEST_SIDE or _likelihood(likely, outline) < _TEXT_BOX:
            continue
        more = 2 * wide * high * _GROW / (2 * (wide + high))
        corners = cv2.boxPoints((middle, (wide + more, high + more), angle)) * scale
        found.append(Box(_from_upper_left(corners.astype(np.float32))))
    return found


def _likelihood(likely: Numbers, outline: NDArray[Any]) -> float:
    left, top, wide, high = cv2.boundingRect(outline)
    mask = np.zeros((high, wide), np.uint8)
    cv2.fillPoly(mask, [outline - np.array([left, top])], 1)
    return float(cv2.mean(likely[top : top + high, left : left + wide], mask)[0])


def _from_upper_left(corners: Numbers) -> Numbers:
    by_left = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = by_left[:2], by_left[2:]
    upper_left, lower_left = left[np.argsort(left[:, 1], kind="stable")]
    upper_right, lower_right = right[np.argsort(right[:, 1], kind="stable")]
    return np.stack([upper_left, upper_right, lower_right, lower_left])


def _fitted(picture: Pixels) -> Pixels:
    """Bring a picture to a size in which the first model sees small letters, and does not take too long."""
    height, width = picture.shape[:2]
    scale = min(max(1.0, _SHORT_SIDE / min(height, width)), _LONG_SIDE / max(height, width))
    to = [max(_STEP, round(side * scale / _STEP) * _STEP) for side in (width, height)]
    return np.asarray(
        cv2.resize(picture, to, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR), np.uint8
    )


def _straightened(picture: Pixels, box: Box) -> Pixels:
    """Cut a line out, as high as the second model takes it."""
    corners = box.corners
    wide, high = (
        max(float(np.linalg.norm(side)) for side in (corners[a] - corners[b], corners[c] - corners[d]))
        for a, b, c, d in ((1, 0, 2, 3), (3, 0, 2, 1))
    )
    if high > wide * _UPRIGHT:
        corners, wide, high = np.roll(corners, -1, axis=0), high, wide
    width = min(_LONGEST_LINE, max(1, math.ceil(_LINE_HEIGHT * wide / max(high, 1))))
    to = np.array([[0, 0], [width, 0], [width, _LINE_HEIGHT], [0, _LINE_HEIGHT]], np.float32)
    bent = cv2.getPerspectiveTransform(corners, to)
    line = cv2.warpPerspective(
        picture, bent, (width, _LINE_HEIGHT), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(line, np.uint8)


def _values(picture: Pixels) -> Numbers:
    """From -1 to 1, colours first, blue before red as the models learned them."""
    return np.ascontiguousarray(picture[:, :, ::-1].transpose(2, 0, 1), np.float32) / 127.5 - 1


def _padded(lines: Sequence[Numbers]) -> Numbers:
    padded = np.zeros((len(lines), 3, _LINE_HEIGHT, max(line.shape[2] for line in lines)), np.float32)
    for row, line in zip(padded, lines, strict=True):
        row[:, :, : line.shape[2]] = line
    return padded


def _batches(widths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of lines of about one width that are read together, and no more than one long line's worth."""
    together: list[int] = []
    for at in sorted(range(len(widths)), key=widths.__getitem__):
        if together and widths[at] * (len(together) + 1) > _LONGEST_LINE:
            yield together
            together = []
        together.append(at)
    if together:
        yield together


def _spelled(steps: Numbers, characters: Sequence[str]) -> Read:
    """The likeliest character of each step, said once where it stays and left out where there is none (CTC)."""
    best = steps.argmax(axis=1)
    kept = (best != 0) & (best != np.concatenate([[0], best[:-1]]))
    text = "".join(characters[at] for at in best[kept])
    return Read(text, float(steps.max(axis=1)[kept].mean()) if text else 0.0)


def _rows(boxes: Sequence[Box]) -> list[list[int]]:
    """Return the places of boxes that stand side by side together, in the order of reading."""
    rows: list[list[int]] = []
    for at in sorted(range(len(boxes)), key=lambda at: boxes[at].middle):
        last = boxes[rows[-1][0]] if rows else None
        if last is not None and boxes[at].middle - last.middle < min(last.height, boxes[at].height) / 2:
            rows[-1].append(at)
        else:
            rows.append([at])
    return [sorted(row, key=lambda at: boxes[at].left) for row in rows]
