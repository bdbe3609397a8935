"""Where a download may be sent on to: never from encrypted to plain, nor into this machine's own network."""

from __future__ import annotations

import ipaddress
import socket

import httpx

from edge_runtime.models.errors import SourceUnavailable


def require_allowed(origin: httpx.URL, target: httpx.URL) -> None:
    """Refuse a redirect that could make this machine ask its own network, or its cloud's metadata, for a stranger.

    Args:
        origin: What the person asked for; where that is in a private network, so may the redirect be.
        target: Where it leads.

    Raises:
        SourceUnavailable: It leads to a link-local address, to a private one from a public one, or to plain http.
    """
    if target.scheme not in {"http", "https"} or (origin.scheme == "https" and target.scheme != "https"):
        raise SourceUnavailable(f"{origin.host} sends the download on to {target.scheme}, which is not encrypted.")
    may_be_private = any(_is_private(address) for address in _addresses(origin))
    for address in _addresses(target):
        if address.is_link_local or address.is_multicast or (_is_private(address) and not may_be_private):
            raise SourceUnavailable(
                f"{origin.host} sends the download on to {target.host}, which is {address}: a place inside this "
                "machine's network. That is refused."
            )


def same_place(one: httpx.URL, other: httpx.URL) -> bool:
    """Whether two addresses are of one scheme, host and port: a token for one may be sent to the other."""
    return (one.scheme, one.host, _port(one)) == (other.scheme, other.host, _port(other))


def _port(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _is_private(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return not address.is_global or address.is_loopback


def _addresses(url: httpx.URL) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Return what a host resolves to; nothing where only a proxy can know."""
    try:
        found = socket.getaddrinfo(url.host, _port(url), type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return []
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    return [getattr(address, "ipv4_mapped", None) or address for address in addresses]
