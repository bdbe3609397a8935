"""Ask a program of ours, at a Unix socket or a port of this host, for one path: 0 where it answers 200.

    healthcheck.py /var/lib/tidegate/run/edge.sock /readyz
    healthcheck.py 8080 /livez

Images have no shell and no curl, and an edge runtime has no port that an orchestrator could ask.
"""

from __future__ import annotations

import socket
import sys

TIMEOUT_S = 4


def main() -> int:
    """Ask."""
    address, path = sys.argv[1:]
    place: str | tuple[str, int] = ("127.0.0.1", int(address)) if address.isdecimal() else address
    family = socket.AF_INET if isinstance(place, tuple) else socket.AF_UNIX
    with socket.socket(family) as connection:
        connection.settimeout(TIMEOUT_S)
        try:
            connection.connect(place)
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            answer = connection.makefile("rb").readline()
        except OSError as exc:
            print(f"{address} does not answer: {exc}", file=sys.stderr)
            return 1
    print(answer.decode("latin-1").strip())
    return 0 if answer.split()[1:2] == [b"200"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
