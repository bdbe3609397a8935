"""What really computed an answer: told in a header, on spans and in the runtime's state."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from inference_protocol import telemetry_names as names

_HEADER = re.compile(r"(?P<provider>[\w.-]{1,64})(?:; instead-of=(?P<instead_of>[\w.-]{1,64}))?")


@dataclass(frozen=True, slots=True)
class Execution:
    """One answer's.

    Attributes:
        provider: ONNX Runtime's name of the execution provider, or what another engine computes on.
        instead_of: The provider that was to do it and failed in this very request.
    """

    provider: str
    instead_of: str | None = None

    @property
    def header(self) -> str:
        """As it stands in a header."""
        return self.provider if self.instead_of is None else f"{self.provider}; instead-of={self.instead_of}"

    @property
    def attributes(self) -> dict[str, str]:
        """As they stand on a span."""
        failed = {} if self.instead_of is None else {names.EXECUTION_INSTEAD_OF: self.instead_of}
        return {names.EXECUTION_PROVIDER: self.provider} | failed

    @classmethod
    def read(cls, header: str | None) -> Self | None:
        """Return what a header says; `None` where it says nothing that can be believed."""
        found = None if header is None else _HEADER.fullmatch(header)
        return None if found is None else cls(found["provider"], found["instead_of"])


UNKNOWN = Execution("unknown")
