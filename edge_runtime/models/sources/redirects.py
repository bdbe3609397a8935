"""Where a download may be sent on to: never from encrypted to plain, nor into this machine's own network.

What is looked at is what is connected to: a `Place` is an address that was resolved once.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import Any

import httpx

from edge_runtime.models.errors import SourceUnavailable

# The extension of a request that says which addresses it goes to.
ADDRESSES = "tidegate.addresses"
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request goes.

    Attributes:
        url: Its address.
        addresses: What the host resolved to; none where only a proxy can know.
    """

    url: httpx.URL
    addresses: tuple[_Address, ...]

    @property
    def extensions(self) -> dict[str, Any]:
        """What a request is to be sent with, to arrive there and nowhere else."""
        return {ADDRESSES: tuple(str(address) for address in self.addresses)}


def find_place(url: httpx.URL) -> Place:
    """Resolve the host of what a person asked for."""
    return Place(url, _addresses(url))


def require_allowed(origin: Place, target: httpx.URL) -> Place:
    """Resolve where a redirect leads, unless it makes this machine ask its own network, or its cloud's metadata.

    Args:
        origin: What the person asked for; where that is in a private network, so may the redirect be.
        target: Where it leads.

    Raises:
        SourceUnavailable: It leads to a link-local address, to a private one from a public one, or to plain http.
    """
    asked = origin.url
    if target.scheme not in {"http", "https"} or (asked.scheme == "https" and target.scheme != "https"):
        raise SourceUnavailable(f"{asked.host} sends the download on to {target.scheme}, which is not encrypted.")
    may_be_private = bool(origin.addresses) and all(_is_private(address) for address in origin.addresses)
    place = find_place(target)
    for address in place.addresses:
        if address.is_link_local or address.is_multicast or (_is_private(address) and not may_be_private):
            raise SourceUnavailable(
                f"{asked.host} sends the download on to {target.host}, which is {address}: a place inside this "
                "machine's network. That is refused."
            )
    return place


def same_place(one: httpx.URL, other: httpx.URL) -> bool:
    """Whether two addresses are of one scheme, host and port: a token for one may be sent to the other."""
    return (one.scheme, one.host, _port(one)) == (other.scheme, other.host, _port(other))


def _port(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _is_private(address: _Address) -> bool:
    return not address.is_global or address.is_loopback


def _addresses(url: httpx.URL) -> tuple[_Address, ...]:
    try:
        found = socket.getaddrinfo(url.host, _port(url), type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return ()
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    return tuple(getattr(address, "ipv4_mapped", None) or address for address in addresses)
