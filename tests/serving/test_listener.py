from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from serving.listener import ListenRefused, bind_tcp, bind_unix


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "edge.sock"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_unix_socket_and_its_new_folder_are_for_this_user_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        listener = bind_unix(path)
    finally:
        os.umask(before)
    assert (mode_of(path.parent), mode_of(path)) == (0o700, 0o600)
    listener.close()
    assert not path.exists()


def test_a_socket_that_a_dead_process_left_is_replaced(path: Path) -> None:
    bind_unix(path).socket.close()  # as if killed: the file stays
    assert path.exists()
    listener = bind_unix(path)
    listener.socket.listen()
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))
    listener.close()


def test_a_socket_that_somebody_serves_is_left_alone(path: Path) -> None:
    listener = bind_unix(path)
    listener.socket.listen()
    with pytest.raises(ListenRefused, match="another process"):
        bind_unix(path)
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))
    listener.close()


def test_a_file_that_is_no_socket_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("precious", encoding="utf-8")
    with pytest.raises(ListenRefused, match="no socket"):
        bind_unix(path)
    assert path.read_text(encoding="utf-8") == "precious"


def test_closing_does_not_remove_a_successors_socket(path: Path) -> None:
    first = bind_unix(path)
    path.unlink()
    second = bind_unix(path)
    first.close()
    assert path.exists()
    second.close()


def test_a_path_too_long_for_a_socket_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ListenRefused, match="107 bytes"):
        bind_unix(tmp_path / ("x" * 120))


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_an_address_that_others_reach_is_refused_without_a_token(host: str) -> None:
    with pytest.raises(ListenRefused, match="must authenticate"):
        bind_tcp(host, 0, authenticated=False)
    bind_tcp(host, 0, authenticated=True).close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_loopback_address_needs_no_token(host: str) -> None:
    listener = bind_tcp(host, 0, authenticated=False)
    assert listener.address == f"http://{host}:{listener.socket.getsockname()[1]}"
    listener.close()


def test_a_port_that_is_taken_is_refused_in_words() -> None:
    listener = bind_tcp("127.0.0.1", 0, authenticated=False)
    listener.socket.listen()
    port = listener.socket.getsockname()[1]
    with pytest.raises(ListenRefused, match=f"Port {port}"):
        bind_tcp("127.0.0.1", port, authenticated=False)
    listener.close()
