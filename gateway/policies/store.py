"""The versions of policies on disk: each text once, under its sha256, and a journal of who put what in force and why.

The journal is only ever appended to. A line that was cut off as the power went is passed over: then what was in force
before it is what was in force last.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from gateway.policies.document import Document
from gateway.policies.holder import InForce, StickyBy
from observability.disk import write_whole
from routing_policies.policy.errors import PolicyError

_JOURNAL, _OBJECTS, _TRIAL = "journal.jsonl", "objects", "trials.json"
# So many versions can be gone back to.
KEPT = 200

Event = Literal["in_force", "held", "signed", "canary", "canary_ended", "shadow", "shadow_ended"]


class Entry(BaseModel):
    """One line of the journal.

    Attributes:
        time: UTC, ISO 8601.
        number: Of the version.
        sha256: Of the document, hex.
        digest: Of the policy, as records bear it.
        source: What the settings named as the policy then.
        file_sha256: Of what that held when this was put in force.
        bundle_version: Of the bundle it came in.
        who: Whose doing it was: a caller's id, or `file`, `signal`, `start`.
        people: Whose signatures allowed it.
        looser: Whether it was looser than the one in force before it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    time: str
    event: Event
    number: int
    sha256: str
    digest: str
    name: str
    source: str
    file_sha256: str | None = None
    bundle_version: int | None = None
    who: str
    why: str = ""
    people: tuple[str, ...] = ()
    looser: bool = False


class Trial(BaseModel):
    """A version on trial, as it outlives a restart.

    Attributes:
        beside: sha256 of the stable version that it was begun beside.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str
    percent: float
    beside: str
    by: StickyBy = StickyBy.TENANT


class Trials(BaseModel):
    """What is on trial."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    canary: Trial | None = None
    shadow: Trial | None = None


def trials_of(in_force: InForce) -> Trials:
    """Return what is on trial."""
    canary, shadow, beside = in_force.canary, in_force.shadow, in_force.stable.sha256
    kept = Trials()
    if canary is not None:
        trial = Trial(sha256=canary.version.sha256, percent=canary.percent, beside=beside, by=canary.by)
        kept = kept.model_copy(update={"canary": trial})
    if shadow is not None:
        trial = Trial(sha256=shadow.version.sha256, percent=shadow.percent, beside=beside)
        kept = kept.model_copy(update={"shadow": trial})
    return kept


class VersionStore:
    """The folder of versions. One process writes to it."""

    def __init__(self, folder: Path) -> None:
        """Open the folder, and make it with mode 0700 where it is missing.

        Raises:
            OSError: It cannot be read or made.
        """
        self._folder = folder
        (folder / _OBJECTS).mkdir(mode=0o700, parents=True, exist_ok=True)
        # By sha256, those in force most recently last: clocks are set back, the journal is not.
        self._latest: dict[str, Entry] = {}
        self._newest_bundles: dict[str, Entry] = {}
        self._last: Entry | None = None
        self._highest = 0
        for entry in self._read():
            self._note(entry)
        self._forget_the_oldest()

    @property
    def last_in_force(self) -> Entry | None:
        """What was put in force last."""
        return self._last

    @property
    def versions(self) -> list[Entry]:
        """The latest entry of each version that was ever in force, oldest number first."""
        return sorted((e for e in self._latest.values() if e.event == "in_force"), key=lambda entry: entry.number)

    def in_force_before(self, number: int) -> Entry | None:
        """Return the entry of the version that was in force most recently, beside that one."""
        past = (e for e in reversed(self._latest.values()) if e.event == "in_force" and e.number != number)
        return next(past, None)

    def signers(self, sha256: str) -> tuple[str, ...]:
        """Return whose signatures allowed a document when it was admitted last, as whatever it was."""
        admitted = (e for e in reversed(self.history()) if e.sha256 == sha256 and e.event in {"in_force", "canary"})
        return next((entry.people for entry in admitted), ())

    def history(self) -> list[Entry]:
        """The whole journal, oldest first."""
        return list(self._read())

    def number_of(self, sha256: str) -> int:
        """Return the number of a document: its own, or the next one that is free."""
        known = self._latest.get(sha256)
        return known.number if known is not None else self._highest + 1

    def newest_bundle(self, name: str) -> Entry | None:
        """Return the entry of the bundle of that name with the highest version that was ever in force."""
        return self._newest_bundles.get(name)

    def keep(self, document: Document) -> None:
        """Keep a document, if it is not there.

        Raises:
            OSError: It cannot be written.
        """
        path = self._folder / _OBJECTS / document.sha256
        if not path.exists():
            write_whole(path, document.raw)

    def document(self, sha256: str) -> Document:
        """Read a document that was kept.

        Raises:
            PolicyError: It is not there any more, or is not what it was.
        """
        path = self._folder / _OBJECTS / sha256
        origin = f"version:{self.number_of(sha256)}"
        try:
            raw = path.read_bytes()
        except OSError as exc:
            raise PolicyError(origin, 1, 1, f"the state folder does not give it back: {exc.strerror}") from None
        if hashlib.sha256(raw).hexdigest() != sha256:
            raise PolicyError(origin, 1, 1, "what the state folder holds of it is damaged")
        return Document.of(origin, raw)

    def append(self, entry: Entry) -> None:
        """Write a line of the journal, for good.

        Raises:
            OSError: It cannot be written.
        """
        descriptor = os.open(self._folder / _JOURNAL, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with open(descriptor, "ab+") as file:
            # A line that was cut off stays one by itself.
            begin = b"\n" if _ends_within_a_line(file) else b""
            file.write(begin + entry.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._note(entry)
        self._forget_the_oldest()

    @property
    def trials(self) -> Trials:
        """What was on trial when this was last written; nothing where that cannot be read."""
        try:
            return Trials.model_validate_json((self._folder / _TRIAL).read_bytes())
        except (OSError, ValidationError):
            return Trials()

    def write_trials(self, trials: Trials) -> None:
        """Keep what is on trial.

        Raises:
            OSError: It cannot be written.
        """
        write_whole(self._folder / _TRIAL, trials.model_dump_json().encode())

    def _read(self) -> Iterator[Entry]:
        try:
            lines = (self._folder / _JOURNAL).read_bytes().splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            try:
                yield Entry.model_validate_json(line)
            except ValidationError:
                continue

    def _note(self, entry: Entry) -> None:
        self._highest = max(self._highest, entry.number)
        if entry.event != "in_force":
            self._latest.setdefault(entry.sha256, entry)
            return
        self._last = entry
        self._latest.pop(entry.sha256, None)
        self._latest[entry.sha256] = entry
        newest = self._newest_bundles.get(entry.name)
        if entry.bundle_version is not None and (
            newest is None or entry.bundle_version >= (newest.bundle_version or 0)
        ):
            self._newest_bundles[entry.name] = entry

    def _forget_the_oldest(self) -> None:
        """Remove what nobody can go back to any more: of the versions in force longest ago, their texts."""
        while len(self._latest) > KEPT:
            oldest = next(entry for entry in self._latest.values() if entry is not self._last)
            del self._latest[oldest.sha256]
            (self._folder / _OBJECTS / oldest.sha256).unlink(missing_ok=True)


def _ends_within_a_line(file: IO[bytes]) -> bool:
    if not file.seek(0, os.SEEK_END):
        return False
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"
