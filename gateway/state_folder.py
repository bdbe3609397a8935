"""The state folder: what this installation keeps on disk, and where in it each thing lies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StateFolder:
    """Places in a state folder.

    Attributes:
        root: The folder itself, its owner's alone.
    """

    root: Path

    @property
    def models(self) -> Path:
        """One folder a model."""
        return self.root / "models"

    @property
    def edge_socket(self) -> Path:
        """The socket of the edge runtime that is started here."""
        return self.root / "run" / "edge.sock"

    @property
    def prefixes(self) -> Path:
        """Keys and values of prompts, which the edge runtime keeps."""
        return self.root / "prefixes"

    @property
    def traces(self) -> Path:
        """Spans as lines of OTLP JSON, one file a program."""
        return self.root / "traces"

    @property
    def spool(self) -> Path:
        """Telemetry that the collector has not taken yet, one folder a program."""
        return self.root / "spool"

    @property
    def records(self) -> Path:
        """Decision and outcome records."""
        return self.root / "records"

    @property
    def denials(self) -> Path:
        """Who was turned away."""
        return self.root / "denials"

    @property
    def keys(self) -> Path:
        """The installation's secret."""
        return self.root / "keys"

    @property
    def caller_keys(self) -> Path:
        """Callers' keys, as `tidegate keys` makes them."""
        return self.keys / "callers.json"

    @property
    def policies(self) -> Path:
        """Versions of policies, and the journal of who put them in force."""
        return self.root / "policies"

    @property
    def device_profile(self) -> Path:
        """How fast this machine was found to be."""
        return self.root / "device.json"

    @property
    def providers(self) -> Path:
        """What execution providers were found to be worth here, and which are in quarantine."""
        return self.root / "providers.json"

    @property
    def compiled(self) -> Path:
        """Graphs that execution providers have compiled."""
        return self.root / "compiled"

    @property
    def model_keys(self) -> Path:
        """Public keys of those whose models are trusted, and this machine's own pair."""
        return self.keys / "models"

    @property
    def labels_file(self) -> Path:
        """Labels of conversations."""
        return self.root / "state" / "labels.sqlite"

    @property
    def usage_file(self) -> Path:
        """What callers have taken of their tokens."""
        return self.root / "state" / "usage.json"

    @property
    def outbox_file(self) -> Path:
        """Requests that were put off, and their answers."""
        return self.root / "state" / "outbox.sqlite"
