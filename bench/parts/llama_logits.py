"""llama.cpp's own probabilities of every token, from its running server: what our graphs' are compared with."""

from __future__ import annotations

import http.client
import json

import numpy as np
from numpy.typing import NDArray

_PATIENCE_S = 60.0


def log_probabilities(port: int, tokens: list[int], vocabulary: int) -> NDArray[np.float64]:
    """Of every token of the vocabulary, after these."""
    asked = {"prompt": tokens, "n_predict": 1, "n_probs": vocabulary, "temperature": 0, "cache_prompt": True}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_S)
    connection.request("POST", "/completion", json.dumps(asked), {"content-type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    found = np.full(vocabulary, -np.inf)
    for entry in answer["completion_probabilities"][0]["top_logprobs"]:
        found[entry["id"]] = entry["logprob"]
    return found
