"""Fetches one file over HTTP so that it can be gone on with: over a lost connection, and over the end of the process.

Beside the part that is there stands what the server calls it (its ETag). The rest is asked for with `Range` and
`If-Range` (RFC 9110, section 13.1.5), so that a file which has changed meanwhile comes whole instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from edge_runtime.models.errors import ContentRefused, SourceUnavailable
from edge_runtime.models.sources.answers import Gone, Retry, require_usable
from edge_runtime.models.sources.meter import Meter
from edge_runtime.models.sources.redirects import find_place, require_allowed, same_place
from edge_runtime.models.staging import require_space

_MOST_REDIRECTS = 6
_MOST_ATTEMPTS = 5  # in a row that come no further than those before
_LONGEST_WAIT_S = 30.0
_SPARE_BYTES = 16 << 20
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Remote:
    """A file somewhere else.

    Attributes:
        url: Its address.
        name: What messages call it.
        token: Sent to that address's host and to no other.
        size: Bytes, where the listing says so.
        sha256: Hex, where it is known beforehand.
        most_bytes: Of which it must not have more, where its kind is short.
    """

    url: str
    name: str
    token: str | None = None
    size: int | None = None
    sha256: str | None = None
    most_bytes: int | None = None


class Downloader:
    """Fetches files."""

    def __init__(self, client: httpx.Client, meter: Meter, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Fetch with `client`, which follows no redirects by itself."""
        self._client = client
        self._meter = meter
        self._sleep = sleep

    def fetch(self, remote: Remote, into: Path) -> str:
        """Fetch a file to `into`, going on from what is there, and return its sha256.

        Raises:
            SourceUnavailable: It cannot be had; what was fetched is kept.
            ContentRefused: It is not what was promised; nothing of it is kept.
            NoSpace: It does not fit.
        """
        into.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if into.exists():
            return self._checked(remote, into, into)
        part = _Part(into)
        try:
            self._fill(remote, part)
        except ContentRefused:
            part.discard()
            raise
        found = self._checked(remote, part.path, into)
        part.finish()
        return found

    def _fill(self, remote: Remote, part: _Part) -> None:
        failures, furthest = 0, part.size
        while not part.is_whole:
            try:
                self._attempt(remote, part)
                return  # a file whose length nobody knows is whole when the answer ends
            except Gone:  # what is there is of no more use
                part.discard()
                problem, wait_s = "the file changed meanwhile", 0.0
            except Retry as error:
                problem, wait_s = str(error), error.wait_s
            except httpx.TransportError as error:
                problem, wait_s = f"{type(error).__name__}: {error}".rstrip(": "), 0.0
            failures = 1 if part.size > furthest else failures + 1
            furthest = max(furthest, part.size)
            if failures >= _MOST_ATTEMPTS:
                raise SourceUnavailable(
                    f"{remote.name} could not be fetched: {problem}. {part.size / 1e6:.1f} MB of it are kept; the same "
                    "command goes on from there."
                )
            self._sleep(min(max(wait_s, 0.5 * 2**failures), _LONGEST_WAIT_S))

    def _attempt(self, remote: Remote, part: _Part) -> None:
        headers = {"accept-encoding": "identity"}
        if part.size and part.etag:
            headers |= {"range": f"bytes={part.size}-", "if-range": part.etag}
        with self._following(remote, headers) as (response, linked):
            require_usable(response, remote.name, remote.token)
            start, total = _extent(response)
            if start not in {0, part.size}:
                raise Gone
            expected = remote.size if remote.size is not None else total
            _require_short(remote, expected or 0)
            if expected is not None:
                require_space(part.path.parent, expected - start + _SPARE_BYTES)
            part.promise(response.headers.get("etag"), linked, expected)
            self._meter.begin(remote.name, start, expected)
            with part.path.open("r+b" if start else "wb") as file:
                file.seek(start)
                file.truncate()
                # As blocks come: what is collected to a size first would be lost with the connection.
                for block in response.iter_raw():
                    file.write(block)
                    file.flush()
                    self._meter.advance(len(block))
                    _require_short(remote, file.tell())
                    if expected is not None and file.tell() > expected:
                        raise ContentRefused(f"{remote.name} is longer than the {expected} bytes that were promised.")
                os.fsync(file.fileno())
        if expected is not None and part.size < expected:
            raise Retry(f"{part.size} of {expected} bytes came")

    @contextmanager
    def _following(self, remote: Remote, headers: dict[str, str]) -> Iterator[tuple[httpx.Response, str | None]]:
        """Ask, and follow redirects by hand: each is looked at, and only the first host sees the token."""
        origin = place = find_place(httpx.URL(remote.url))
        linked: str | None = None
        for _ in range(_MOST_REDIRECTS):
            known = remote.token is not None and same_place(origin.url, place.url)
            own = {"authorization": f"Bearer {remote.token}"} if known else {}
            with self._client.stream("GET", place.url, headers=headers | own, extensions=place.extensions) as response:
                if not response.is_redirect:
                    yield response, linked
                    return
                linked = linked or response.headers.get("x-linked-etag")
                target = place.url.join(response.headers["location"])
            place = require_allowed(origin, target)
        raise SourceUnavailable(f"{remote.name}: the redirects of {origin.url.host} do not end.")

    def _checked(self, remote: Remote, path: Path, into: Path) -> str:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        for expected in (remote.sha256, _Part(into).linked):
            if expected is not None and found != expected:
                _Part(into).discard()
                into.unlink(missing_ok=True)
                raise ContentRefused(
                    f"{remote.name} has the sha256 {found} where {expected} was promised, so it is not used."
                )
        return found


def _require_short(remote: Remote, size: int) -> None:
    if remote.most_bytes is not None and size > remote.most_bytes:
        raise ContentRefused(f"{remote.name} is refused: it has more than {remote.most_bytes} bytes.")


class _Part:
    """What is there of a file, and what the server promised of it."""

    def __init__(self, into: Path) -> None:
        self._into = into
        self.path = into.with_name(into.name + ".part")
        self._notes = into.with_name(into.name + ".promised")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def is_whole(self) -> bool:
        return self.size > 0 and self.size == self._promised().get("size")

    @property
    def etag(self) -> str | None:
        return _text(self._promised().get("etag"))

    @property
    def linked(self) -> str | None:
        return _text(self._promised().get("sha256"))

    def promise(self, etag: str | None, linked: str | None, size: int | None) -> None:
        """Keep what the rest is to be asked for with: weak ETags say nothing of bytes."""
        strong = etag if etag and not etag.startswith("W/") else None
        sha256 = (linked or "").strip('"')
        notes = {"etag": strong, "sha256": sha256 if _SHA256.fullmatch(sha256) else None, "size": size}
        self._notes.write_text(json.dumps(notes), encoding="utf-8")

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self._notes.unlink(missing_ok=True)

    def finish(self) -> None:
        self.path.replace(self._into)

    def _promised(self) -> dict[str, object]:
        try:
            found = json.loads(self._notes.read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _extent(response: httpx.Response) -> tuple[int, int | None]:
    """Return where the body begins in the file, and how long the file is."""
    if response.status_code == httpx.codes.PARTIAL_CONTENT:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
        if found is None:
            raise Gone
        return int(found[1]), int(found[2])
    length = response.headers.get("content-length", "")
    return 0, int(length) if length.isdigit() else None
