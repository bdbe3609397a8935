"""Where a target listens: an HTTP(S) origin, or a Unix socket on this machine."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

import httpx


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of a target.

    Attributes:
        text: As written in the settings.
        base: Scheme, host and port that requests name.
        socket_path: The Unix socket to connect to instead of host and port.
    """

    text: str
    base: httpx.URL
    socket_path: str | None = None

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Read `unix:/path/to.sock`, `http://host:port` or `https://host:port`, the latter two with an optional path.

        Raises:
            ValueError: Anything else, also an address with a user, a query or a fragment.
        """
        if text.startswith("unix:"):
            path = text.removeprefix("unix:")
            if not path.startswith("/"):
                raise ValueError(f"{text!r} must name an absolute path, as in unix:/run/edge.sock")
            return cls(text, httpx.URL("http://localhost"), path)
        if "@" in text:  # what stands before it is a secret, which no message repeats
            raise ValueError("an address names no user and no password: give the secret as `credential`")
        try:
            url = httpx.URL(text)
        except httpx.InvalidURL as exc:
            raise ValueError(f"{text!r} is not an address: {exc}") from None
        if url.scheme not in {"http", "https"} or not url.host or url.userinfo or url.query or url.fragment:
            raise ValueError(f"{text!r} must be unix:/path, http://host:port or https://host:port")
        return cls(text, url.copy_with(path=url.path.rstrip("/")), None)

    @property
    def is_this_machine(self) -> bool:
        """Whether it can be nothing but this machine: a socket, or a loopback address. A name says nothing of that."""
        if self.socket_path is not None:
            return True
        try:
            return ipaddress.ip_address(self.base.host).is_loopback
        except ValueError:
            return False

    @property
    def is_plain_http(self) -> bool:
        """Whether it is `http://host:port` and nothing more."""
        return self.socket_path is None and self.base.scheme == "http" and self.base.path in {"", "/"}

    def url(self, path: str) -> httpx.URL:
        """Return the address of `path` (beginning with `/v1` or `/internal`) at this endpoint.

        A base that already ends in `/v1`, as OpenAI's clients write it, is not given a second one.
        """
        prefix = self.base.path.rstrip("/")
        if prefix.endswith("/v1") and path.startswith("/v1/"):
            path = path.removeprefix("/v1")
        return self.base.copy_with(path=prefix + path)
