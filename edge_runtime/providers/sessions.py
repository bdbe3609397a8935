"""What every session is told, whatever runs it. A provider's process imports it, so it needs ONNX Runtime alone."""

from __future__ import annotations

from typing import Any

import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

CPU_PROVIDER = "CPUExecutionProvider"

# ONNX Runtime's exceptions have no base class of their own.
ORT_ERRORS = (
    ort_errors.EPFail,
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.NoSuchFile,
    ort_errors.NotImplemented,
    ort_errors.RuntimeException,
)


def session_options(threads: int) -> ort.SessionOptions:
    """Return what every session is opened with, whatever runs it."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # An arena never shrinks, and each graph would have one as large as its largest run. Without it a run is as fast.
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 4  # errors are raised, and logged by whoever catches them
    # Waiting for work by spinning makes single-stream decode 1.4 times as fast (8.2 against 11.8 ms) and burns cores
    # that others want. 50 µs is as fast as a millisecond, burns less, and spinning ends with the run.
    options.add_session_config_entry("session.intra_op.spin_duration_us", "50")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # Products of small activations are often subnormal, which a multiplication takes ten times as long for.
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    return options


def node_counts(session: Any) -> dict[str, int]:
    """Return how many nodes of the graph each provider runs, by ONNX Runtime's names of the providers.

    A provider that is listed may run none of them: only this tells. The session must have been opened with
    `session.record_ep_graph_assignment_info`.
    """
    found: dict[str, int] = {}
    for part in session.get_provider_graph_assignment_info():
        found[part.ep_name] = found.get(part.ep_name, 0) + len(part.get_nodes())
    return found
