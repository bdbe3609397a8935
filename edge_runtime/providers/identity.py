"""For how long a measurement holds: until anything changes that a compiled graph or its speed depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import onnxruntime as ort

from edge_runtime.providers.adapter import Found
from edge_runtime.providers.graph_file import GraphFile


def provider_identity(found: Found) -> str:
    """Return what stays the same while provider, driver and ONNX Runtime do."""
    return _digest(found.name, found.provider, found.version, found.driver, list(found.devices), ort.__version__)


def graph_identity(found: Found, graph: GraphFile, options: Mapping[str, str], threads: int) -> str:
    """Return what stays the same while the above does, with one graph and one set of options."""
    return _digest(provider_identity(found), graph.digest, graph.path.name, dict(sorted(options.items())), threads)


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
