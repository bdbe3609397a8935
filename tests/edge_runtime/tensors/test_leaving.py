"""Work that nobody waits for any more ends, over real sockets: one thread runs a model, so the next one would wait."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx
import pytest

pytestmark = [pytest.mark.models, pytest.mark.timeout(60)]
FOREVER = 10**15


def counted(times: int) -> dict[str, Any]:
    def whole(name: str, value: int) -> dict[str, Any]:
        return {"name": name, "shape": [1], "datatype": "INT64", "data": [value]}

    return {"inputs": [whole("x", 7), whole("times", times)]}


def count(edge: httpx.Client, times: int, **headers: str) -> httpx.Response:
    return edge.post("/v2/models/counting/infer", json=counted(times), headers=headers)


def asked(edge: httpx.Client, times: int) -> socket.socket:
    """Ask, and do not read the answer."""
    body = json.dumps(counted(times)).encode()
    found = socket.create_connection((edge.base_url.host, edge.base_url.port or 0), timeout=30)
    found.sendall(
        b"POST /v2/models/counting/infer HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n" % len(body) + body
    )
    return found


def is_busy(edge: httpx.Client) -> bool:
    """Whether something else runs: then what takes a moment is not computed in time."""
    return count(edge, 3, **{"x-latency-budget-ms": "300"}).status_code == 504


def test_a_caller_who_hangs_up_ends_the_run(edge: httpx.Client) -> None:
    left = asked(edge, FOREVER)
    while not is_busy(edge):
        pass  # the test's own time limit ends it
    left.close()
    assert count(edge, 3).json()["outputs"][0]["data"] == [10]


def test_a_caller_who_hangs_up_while_another_runs_leaves_that_one_alone(edge: httpx.Client) -> None:
    with asked(edge, 300_000) as stays:
        asked(edge, FOREVER).close()
        answer = b""
        while b"300007" not in answer:
            more = stays.recv(65536)
            assert more, answer
            answer += more
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("budget_ms", ["200", "1"])
def test_a_budget_that_runs_out_ends_the_run_by_its_name(edge: httpx.Client, budget_ms: str) -> None:
    late = count(edge, FOREVER, **{"x-latency-budget-ms": budget_ms})
    assert (late.status_code, late.json()["code"]) == (504, "deadline_exceeded")
    assert "budget ran out" in late.json()["error"]
    assert count(edge, 3).json()["outputs"][0]["data"] == [10]
