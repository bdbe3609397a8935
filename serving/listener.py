"""The socket a program is reached by, made so that nobody reaches it who should not.

We bind it ourselves: uvicorn makes Unix sockets that every user of the machine may write to.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from serving.server_tls import ServerTls
from serving.start import StartRefused

# sun_path of Linux, less the zero byte at its end.
_MAX_SOCKET_PATH_BYTES = 107


class ListenRefused(StartRefused):
    """The program must not, or cannot, listen where it was told to."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket.

    Attributes:
        socket: Bound; whoever serves it starts to listen.
        address: For people.
        path: The file of a Unix socket.
        inode: Of that file, so that another's is never removed.
        tls: What connections are made under; `None` where they are in the clear.
        is_inherited: Whether a service manager holds it, too: who connects then waits for the next process.
    """

    socket: socket.socket
    address: str
    path: Path | None = None
    inode: int | None = None
    tls: ServerTls | None = None
    is_inherited: bool = False

    def close(self) -> None:
        """Close the socket and remove its file, if that is still ours."""
        self.socket.close()
        if self.path is not None and _inode(self.path) == self.inode:
            self.path.unlink(missing_ok=True)


def bind_unix(path: Path) -> Listener:
    """Bind a Unix socket for this user alone; a file that a dead process left behind is replaced.

    Args:
        path: The socket. Its folder is made, for this user alone, if it is not there.

    Raises:
        ListenRefused: Somebody answers there, something else stands there, or the path is too long.
    """
    if len(os.fsencode(path)) > _MAX_SOCKET_PATH_BYTES:
        raise ListenRefused(f"The socket's path is longer than {_MAX_SOCKET_PATH_BYTES} bytes: {path}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_stale(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.bind(os.fspath(path))
        # Nobody can have connected yet: that takes a socket that listens.
        path.chmod(0o600)
    except OSError as exc:
        bound.close()
        raise ListenRefused(f"{path} cannot be bound: {exc.strerror}.") from None
    return Listener(bound, f"unix:{path}", path, _inode(path))


def bind_tcp(host: str, port: int, *, authenticated: bool, tls: ServerTls | None = None) -> Listener:
    """Bind a TCP port.

    Args:
        host: A name or an address.
        port: 0 takes any that is free.
        authenticated: Whether callers must send a token; without it only this machine may call.
        tls: What connections are made under, if not in the clear.

    Raises:
        ListenRefused: Others could call without a token, or the port cannot be had.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as exc:
        raise ListenRefused(f"{host} is no address to listen on: {exc.strerror}.") from None
    if not authenticated and not is_loopback(str(address[0])):
        raise ListenRefused(
            f"{host} can be reached from other machines, so callers must authenticate; or listen on 127.0.0.1."
        )
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as exc:
        bound.close()
        raise ListenRefused(f"Port {port} of {host} cannot be bound: {exc.strerror}.") from None
    shown = f"[{host}]" if family == socket.AF_INET6 else host
    scheme = "http" if tls is None else "https"
    return Listener(bound, f"{scheme}://{shown}:{bound.getsockname()[1]}", tls=tls)


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect there; a name other than `localhost` says nothing of that."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ListenRefused(f"{path} is there and is no socket: choose another path, or remove it.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError as exc:
            raise ListenRefused(f"{path} is in use, or not ours: {exc.strerror}.") from None
    raise ListenRefused(f"{path} is served by another process: stop it first.")


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return None
