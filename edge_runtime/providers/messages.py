"""Messages between a runtime and the process of a provider: a JSON object, and tensors as they lie in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensors = Mapping[str, NDArray[Any]]
_TEXT = "O"


def send(line: Connection, head: Mapping[str, Any], tensors: Tensors | None = None) -> None:
    """Send one message; blocks while the other side does not read.

    Raises:
        OSError: The other side is gone.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in (tensors or {}).items()}
    told = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
    line.send_bytes(json.dumps({"head": head, "tensors": told}).encode())
    for array in arrays.values():
        if array.dtype.kind == _TEXT:
            line.send_bytes(json.dumps([_text(each) for each in array.flat]).encode())
        else:
            line.send_bytes(array.reshape(-1).view(np.uint8).data)


def receive(line: Connection) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the next message.

    Raises:
        EOFError: The other side is gone.
        OSError: Likewise.
    """
    message = json.loads(line.recv_bytes())
    tensors: dict[str, NDArray[Any]] = {}
    for name, kind, shape in message["tensors"]:
        content = line.recv_bytes()
        if np.dtype(kind).kind == _TEXT:
            tensors[name] = np.array(json.loads(content), object).reshape(shape)
        else:
            tensors[name] = np.frombuffer(content, kind).reshape(shape)
    return message["head"], tensors


def _text(value: object) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
