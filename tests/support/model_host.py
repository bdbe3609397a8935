"""A web server that models are pulled from, on a socket of its own, which misbehaves where a test wants it to."""

from __future__ import annotations

import hashlib
import json
import ssl
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[BaseHTTPRequestHandler, bytes], None]


@dataclass
class ModelHost:
    """Serves `files`, with ranges and ETags, as what `types` says; `next_answers` take the place of the next ones."""

    files: dict[str, bytes] = field(default_factory=dict)
    next_answers: defaultdict[str, deque[Answer]] = field(default_factory=lambda: defaultdict(deque))
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    url: str = ""

    def add_repository(self, repo: str, commit: str, files: dict[str, bytes], *, revision: str = "main") -> None:
        """Stand in for a model hub's listing of a repository, and its files at a commit."""
        siblings = [
            {"rfilename": name, "size": len(content), "lfs": {"sha256": hashlib.sha256(content).hexdigest()}}
            for name, content in files.items()
        ]
        listing = json.dumps({"id": repo, "sha": commit, "siblings": siblings}).encode()
        for asked in (revision, commit):
            self.files[f"/api/models/{repo}/revision/{asked}"] = listing
        self.files |= {f"/{repo}/resolve/{commit}/{name}": content for name, content in files.items()}

    def asked_for(self, path: str) -> list[dict[str, str]]:
        """The headers of every request for a path."""
        return [headers for asked, headers in self.seen if asked == path]


@contextmanager
def model_host(encrypted: ssl.SSLContext | None = None) -> Iterator[ModelHost]:
    host = ModelHost()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            host.seen.append((path, {name.lower(): value for name, value in self.headers.items()}))
            content = host.files.get(path, b"")
            if host.next_answers[path]:
                host.next_answers[path].popleft()(self, content)
            elif path in host.files:
                serve(self, content, kind=host.types.get(path))
            else:
                refuse(404)(self, content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing: a client that hangs up is what several tests are about."""

    with Server(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if encrypted is not None:
            server.socket = encrypted.wrap_socket(server.socket, server_side=True)
        host.url = f"http{'s' if encrypted else ''}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield host
        finally:
            server.shutdown()
            thread.join()


def etag_of(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:16]}"'


def serve(
    handler: BaseHTTPRequestHandler,
    content: bytes,
    *,
    only: int | None = None,
    length: int | None = None,
    kind: str | None = None,
) -> None:
    """Answer as a good server does; with `only`, hang up after so many bytes; with `length`, promise so many."""
    start = 0
    asked = handler.headers.get("range")
    if asked and handler.headers.get("if-range") in {None, etag_of(content)}:
        start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if start >= len(content):
            refuse(416)(handler, content)
            return
    body = content[start:]
    handler.send_response(206 if start else 200)
    if start:
        handler.send_header("content-range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    handler.send_header("content-length", str(len(body) if length is None else length))
    handler.send_header("etag", etag_of(content))
    if kind is not None:
        handler.send_header("content-type", kind)
    handler.end_headers()
    handler.wfile.write(body if only is None else body[:only])
    if only is not None or length is not None:
        handler.close_connection = True


def cut_after(count: int) -> Answer:
    return lambda handler, content: serve(handler, content, only=count)


def promising(length: int) -> Answer:
    return lambda handler, content: serve(handler, content, length=length)


def refuse(status: int, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler, content: bytes) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return answer


def redirect(location: str, **headers: str) -> Answer:
    return refuse(302, location=location, **headers)


def web_page(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    """A login page, as a network puts it in the place of everything."""
    page = b"<!DOCTYPE html><html><title>Welcome to the hotel</title></html>"
    handler.send_response(200)
    handler.send_header("content-type", "text/html; charset=utf-8")
    handler.send_header("content-length", str(len(page)))
    handler.end_headers()
    handler.wfile.write(page)
