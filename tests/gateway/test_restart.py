"""A restart behind a socket that the service manager holds: nobody is refused, and what runs is finished."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from serving.inherited import inherited_sockets, listen_on
from serving.listener import ListenRefused
from tests.support.running_gateway import free_port
from tests.support.waiting import until

# What a service manager does between fork and exec.
LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.set_inheritable(3, True); "
    "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', LISTEN_FDNAMES='gateway'); "
    "os.execv(sys.executable, [sys.executable, '-m', 'gateway.cli', 'serve', '--settings', sys.argv[2]])"
)


def start(held: socket.socket, settings: Path) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", LAUNCH, str(held.fileno()), str(settings)]
    return subprocess.Popen(argv, pass_fds=[held.fileno()])


async def test_nobody_is_refused_while_one_process_ends_and_the_next_begins(tmp_path: Path) -> None:
    settings = tmp_path / "tidegate.yaml"
    settings.write_text(f"state_dir: {tmp_path}/state\nadmin: {{port: {free_port()}}}\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as held:
        url = f"http://127.0.0.1:{held.getsockname()[1]}/livez"
        first = start(held, settings)
        statuses: list[int | str] = []
        stop = threading.Event()

        def ask() -> None:
            while not stop.is_set():
                try:
                    statuses.append(httpx.get(url, timeout=60, trust_env=False).status_code)
                except httpx.TransportError as exc:
                    statuses.append(repr(exc))
                time.sleep(0.005)

        asking = threading.Thread(target=ask)
        second = None
        try:
            asking.start()
            await until(lambda: len(statuses) > 20, within_s=60)
            first.send_signal(signal.SIGTERM)
            assert first.wait(30) == 0
            before = len(statuses)
            second = start(held, settings)
            await until(lambda: len(statuses) > before + 20, within_s=60)
        finally:
            stop.set()
            asking.join()
            for process in (first, second):
                if process is not None and process.poll() is None:
                    process.terminate()
                    process.wait(30)
        assert set(statuses) == {200}


@pytest.mark.parametrize(
    ("told", "names"),
    [
        ({}, set()),
        ({"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "gateway"}, set()),
        ({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "x", "LISTEN_FDNAMES": "gateway"}, set()),
    ],
)
def test_what_was_passed_to_another_process_is_not_taken(told: dict[str, str], names: set[str]) -> None:
    assert set(inherited_sockets(told)) == names
    assert told == {}


def test_sockets_without_names_of_their_own_are_refused() -> None:
    told = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2", "LISTEN_FDNAMES": "gateway:gateway"}
    with pytest.raises(ListenRefused, match="FileDescriptorName"):
        inherited_sockets(told)


def test_a_socket_that_others_can_reach_needs_callers_who_authenticate() -> None:
    with socket.create_server(("0.0.0.0", 0)) as held:
        with pytest.raises(ListenRefused, match="must authenticate"):
            listen_on(held, authenticated=False)
        assert listen_on(held, authenticated=True).is_inherited
