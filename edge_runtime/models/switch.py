"""The link that says which version a model's name stands for, and the list of those before it.

A switch is prepared as a link of its own and made by one rename, so that at every moment the name stands for one whole
version or, before the first, for none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.models.exchange import exchange
from observability.disk import sync, write_whole

VERSIONS = ".versions"
_PREPARED = "next"
_EARLIER = "earlier.json"
_MOST_EARLIER = 32


@dataclass(frozen=True, slots=True)
class Switch:
    """The switch of one model.

    Attributes:
        root: The folder of models.
        model: Its name.
    """

    root: Path
    model: str

    @property
    def link(self) -> Path:
        """What the name stands for."""
        return self.root / self.model

    @property
    def versions(self) -> Path:
        """Where the model's versions stand."""
        return self.root / VERSIONS / self.model

    def active(self) -> str | None:
        """Return the id of the active version, or `None` where there is none."""
        return self.link.readlink().name if self.link.is_symlink() else None

    def prepare(self, version: str) -> None:
        """Write the new link beside the versions."""
        prepared = self.versions / _PREPARED
        prepared.unlink(missing_ok=True)
        prepared.symlink_to(Path(VERSIONS, self.model, version))

    def adopt(self, version: str) -> bool:
        """Move the folder under the model's name among the versions, and put its link there, in one step.

        Returns whether that was done: not every file system can.
        """
        place = self.versions / version
        if place.exists():
            return False
        place.unlink(missing_ok=True)
        place.symlink_to(Path(VERSIONS, self.model, version))
        try:
            done = exchange(place, self.link)
        except OSError:
            place.unlink()
            raise
        if not done:
            place.unlink()
            return False
        sync(self.versions)
        sync(self.root)
        return True

    def throw(self) -> None:
        """Let the prepared link take the place of the old."""
        (self.versions / _PREPARED).rename(self.link)
        sync(self.root)

    def repair(self) -> None:
        """Finish what a killed process began: a prepared link is thrown where the name stands for nothing."""
        for part in self.versions.glob("*.part"):
            part.unlink()
        prepared = self.versions / _PREPARED
        for other in self.versions.iterdir():  # of an adoption: versions are folders
            if other.is_symlink() and other != prepared:
                other.unlink()
        if not prepared.is_symlink():
            return
        stands = (self.versions / prepared.readlink().name).is_dir()
        if stands and not self.link.is_symlink() and not self.link.exists():
            self.throw()
        else:
            prepared.unlink()

    def earlier(self) -> list[str]:
        """Return the ids of versions that were active before, oldest first."""
        try:
            found = json.loads((self.versions / _EARLIER).read_bytes())
        except (FileNotFoundError, ValueError):
            return []
        return [id_ for id_ in found if isinstance(id_, str)] if isinstance(found, list) else []

    def remember(self, earlier: list[str]) -> None:
        """Write that list, whole or not at all."""
        write_whole(self.versions / _EARLIER, f"{json.dumps(earlier[-_MOST_EARLIER:])}\n".encode())
