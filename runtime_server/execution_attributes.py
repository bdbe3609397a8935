"""What computed an answer, as a span tells it."""

from __future__ import annotations

from inference_protocol import telemetry_names as names
from inference_protocol.execution import Execution


def execution_attributes(execution: Execution) -> dict[str, str]:
    """Return the attributes of a span."""
    failed = {} if execution.instead_of is None else {names.EXECUTION_INSTEAD_OF: execution.instead_of}
    return {names.EXECUTION_PROVIDER: execution.provider} | failed
