"""The reference tokenizer: the edge model's own, read from its folder where it is on this machine."""

from __future__ import annotations

from tokenizers import Tokenizer

from gateway.settings import Settings
from routing_policies.signals.size import Calibration, TokenCounter


class FileTokenCounter:
    """Counts tokens exactly with a `tokenizer.json`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Count with this tokenizer."""
        self._tokenizer = tokenizer

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, without special tokens around it."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


def reference_tokenizer(settings: Settings) -> tuple[TokenCounter | None, Calibration]:
    """Return a counter, or `None` where the edge model is not here, and what texts usually come to."""
    path = settings.folder.models / settings.edge.model / "tokenizer.json"
    if not path.is_file():
        return None, Calibration.unknown()
    counter = FileTokenCounter(Tokenizer.from_file(str(path)))
    return counter, Calibration.of(counter)
