"""Ending the run in flight from another thread."""

from __future__ import annotations

import onnxruntime as ort


class Interruption:
    """Hands out the options of each run; once set, that run and all later ones end between two of their nodes.

    Each run has options of its own, since the flag in them stays up.
    """

    def __init__(self) -> None:
        """Begin unset."""
        self._is_set = False
        self._current: ort.RunOptions | None = None

    @property
    def is_set(self) -> bool:
        """Whether runs are to end."""
        return self._is_set

    def options(self) -> ort.RunOptions:
        """Return the options of the run that is about to begin."""
        options = self._current = ort.RunOptions()
        if self._is_set:
            options.terminate = True
        return options

    def set(self) -> None:
        """End what runs. Safe from any thread: either this sees the run's options, or the run sees the flag."""
        self._is_set = True
        if self._current is not None:
            self._current.terminate = True
