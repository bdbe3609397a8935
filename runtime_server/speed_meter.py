"""How fast the model runs here: measured when it is loaded, then kept current by the steps that really run."""

from __future__ import annotations

from collections.abc import Mapping

_WEIGHT_OF_NEWEST = 0.1


class SpeedMeter:
    """Moving averages of prefill and decode speed. One thread writes, any thread reads."""

    def __init__(self, *, prefill_tokens_per_s: float, ms_per_token: Mapping[int, float]) -> None:
        self._prefill_tokens_per_s = prefill_tokens_per_s
        self._ms_per_token = ms_per_token

    @property
    def ms_per_token(self) -> Mapping[int, float]:
        """Rows in a decode step to the milliseconds it takes; the mapping never changes once it is handed out."""
        return self._ms_per_token

    @property
    def prefill_tokens_per_s(self) -> float:
        """Prompt tokens read a second while nothing else runs."""
        return self._prefill_tokens_per_s

    def decode_s(self, rows: int) -> float:
        """Return the seconds a decode step of `rows` rows is expected to take; 0 where none has run yet."""
        return self._ms_per_token.get(rows, 0.0) / 1000

    def add_decode(self, rows: int, seconds: float) -> None:
        """Count one decode step."""
        newest = seconds * 1000
        self._ms_per_token = {**self._ms_per_token, rows: _smooth(self._ms_per_token.get(rows, newest), newest)}

    def add_prefill(self, tokens: int, seconds: float) -> None:
        """Count one prefill chunk. Call it for chunks near full size: short ones say little about long prompts."""
        self._prefill_tokens_per_s = _smooth(self._prefill_tokens_per_s, tokens / max(seconds, 1e-9))


def _smooth(average: float, newest: float) -> float:
    return average + _WEIGHT_OF_NEWEST * (newest - average)
