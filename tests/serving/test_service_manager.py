from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from serving.listener import bind_tcp
from serving.server import Ending, serve_until_signal
from serving.service_manager import ServiceManager


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A socket as systemd holds it, named in the environment."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield receiver


async def _no_drain() -> None:
    return


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    asyncio.get_running_loop().call_later(0.2, os.kill, os.getpid(), signal.SIGTERM)
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


def test_a_service_says_when_it_serves_that_its_loop_turns_and_when_it_stops(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    listener = bind_tcp("127.0.0.1", 0, authenticated=False)
    serve_until_signal(_app, listener, Ending(_no_drain))
    manager.setblocking(False)
    told = []
    while True:
        try:
            told.append(manager.recv(1000).decode())
        except BlockingIOError:
            break
    beats = told.count("WATCHDOG=1")
    rest = [message for message in told if message != "WATCHDOG=1"]
    assert beats >= 3
    assert rest == [f"READY=1\nSTATUS=Serving {listener.address}", "STOPPING=1\nSTATUS=Draining"]


def test_a_watchdog_that_waits_for_another_process_is_none_of_ours(tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "nobody"), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}

    async def watch() -> set[str]:
        async with ServiceManager(environment).watched():
            return {task.get_name() for task in asyncio.all_tasks()}

    assert "watchdog" not in asyncio.run(watch())


def test_a_manager_that_does_not_listen_costs_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).tell("READY=1")
    assert "could not be told READY=1" in caplog.text


def test_an_abstract_name_is_understood() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0tidegate-test-{os.getpid()}")
        receiver.settimeout(5)
        ServiceManager({"NOTIFY_SOCKET": f"@tidegate-test-{os.getpid()}"}).tell("READY=1")
        assert receiver.recv(100) == b"READY=1"
