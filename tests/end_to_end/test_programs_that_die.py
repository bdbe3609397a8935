"""Programs are killed; requests go where they may, and `tidegate up` brings the dead back."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import httpx
import pytest

from tests.support.installation import Installation, installed

pytestmark = [pytest.mark.models, pytest.mark.timeout(400)]
LONG = "word " * 700  # bound for the cloud while it is there


def test_a_killed_cloud_is_stood_in_for_and_comes_back(installation: Installation) -> None:
    assert installation.chat(LONG, max_tokens=2).headers["x-tidegate-target"] == "cloud"
    installation.kill("cloud_runtime")
    at_once = installation.chat(LONG, max_tokens=2)
    assert (at_once.status_code, at_once.headers["x-tidegate-target"]) == (200, "edge")
    installation.until_health(edge="up", cloud="up")
    assert installation.chat(LONG, max_tokens=2).headers["x-tidegate-target"] == "cloud"


def test_a_killed_edge_sends_public_requests_to_the_cloud_and_refuses_restricted_ones(
    installation: Installation,
) -> None:
    installation.kill("edge_runtime")
    public = installation.chat("Hi", max_tokens=2)
    restricted = installation.chat("Hi", max_tokens=2, headers={"x-data-class": "restricted"})
    assert (public.status_code, public.headers["x-tidegate-target"]) == (200, "cloud")
    assert restricted.status_code == 503
    assert "restricted" in restricted.json()["error"]["message"]
    assert "edge" in restricted.json()["error"]["message"]
    installation.until_health(edge="up", cloud="up")
    again = installation.chat("Hi", max_tokens=2, headers={"x-data-class": "restricted"})
    assert (again.status_code, again.headers["x-tidegate-target"]) == (200, "edge")


def test_sigterm_lets_a_running_answer_finish_and_takes_no_new_ones(tmp_path: Path, models_dir: Path) -> None:
    received: list[bytes] = []
    begun = threading.Event()

    def read(url: str) -> None:
        body = {
            "model": "auto",
            "messages": [{"role": "user", "content": "Write a long story about a robot."}],
            "stream": True,
            "max_tokens": 150,
            "temperature": 0,
        }
        headers = {"x-data-class": "restricted"}
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, headers=headers, timeout=120) as response:
            for chunk in response.iter_bytes():
                received.append(chunk)
                begun.set()

    with installed(tmp_path / "state", models_dir) as found:
        reader = threading.Thread(target=read, args=(found.url,))
        reader.start()
        assert begun.wait(60)
        found.process.send_signal(signal.SIGTERM)
        found.until(lambda: _refuses(found), "new requests to be refused", within_s=20)
        reader.join(120)
        assert found.process.wait(60) == 0
    assert b"".join(received).endswith(b"data: [DONE]\n\n")


def _refuses(found: Installation) -> bool:
    try:
        return found.chat("Hi", max_tokens=1).status_code == 503
    except httpx.TransportError:
        return True
