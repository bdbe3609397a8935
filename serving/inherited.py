"""Sockets that a service manager has bound and passes on, so that a restart refuses nobody.

The manager keeps them open while one process ends and the next begins; who connects meanwhile waits. Protocol:
https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, MutableMapping

from serving.listener import Listener, ListenRefused, is_loopback
from serving.server_tls import ServerTls

_FIRST_DESCRIPTOR = 3
_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


def inherited_sockets(environment: MutableMapping[str, str] | None = None) -> Mapping[str, socket.socket]:
    """Return the sockets that were passed to this very process, by the names of their units; then it has none any more.

    Raises:
        ListenRefused: What was passed is no socket that listens, or has no name of its own.
    """
    environment = os.environ if environment is None else environment
    told = {name: environment.pop(name, "") for name in _VARIABLES}  # a child must not take them for its own
    if told["LISTEN_PID"] != str(os.getpid()) or not told["LISTEN_FDS"].isdecimal():
        return {}
    count = int(told["LISTEN_FDS"])
    names = told["LISTEN_FDNAMES"].split(":")
    if len(names) != count or len(set(names)) != count:
        raise ListenRefused(f"{count} sockets were passed, named {names}: give each unit a `FileDescriptorName=`.")
    return {name: _listening(_FIRST_DESCRIPTOR + nth, name) for nth, name in enumerate(names)}


def listen_on(inherited: socket.socket, *, authenticated: bool, tls: ServerTls | None = None) -> Listener:
    """Serve a socket that was passed, under the rule that `bind_tcp` has.

    Raises:
        ListenRefused: Others could call without a token.
    """
    address = inherited.getsockname()
    if inherited.family == socket.AF_UNIX:
        return Listener(inherited, f"unix:{address}", tls=tls, is_inherited=True)
    host, port = str(address[0]), address[1]
    if not authenticated and not is_loopback(host):
        raise ListenRefused(
            f"{host} can be reached from other machines, so callers must authenticate; or have the unit listen on "
            "127.0.0.1."
        )
    scheme, shown = "http" if tls is None else "https", f"[{host}]" if ":" in host else host
    return Listener(inherited, f"{scheme}://{shown}:{port}", tls=tls, is_inherited=True)


def _listening(descriptor: int, name: str) -> socket.socket:
    try:
        found = socket.socket(fileno=descriptor)
        listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as exc:
        raise ListenRefused(f"What was passed as {name} is no socket: {exc.strerror}.") from None
    if not listens:
        raise ListenRefused(f"The socket that was passed as {name} does not listen: set `Accept=no` in its unit.")
    os.set_inheritable(descriptor, False)
    return found
