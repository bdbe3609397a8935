"""How a server is reached: at the very addresses that were looked at, or by the proxy that the machine is set up for.

A name that is resolved a second time, for the connection, may lead elsewhere than where it led when it was looked at.
So it is resolved once, and what is connected to is an address. The certificate is still that of the name.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx

from edge_runtime.models.errors import ContentRefused
from edge_runtime.models.sources.redirects import ADDRESSES, Place

_TIMEOUT = httpx.Timeout(30.0, connect=10.0)


class Connections(httpx.BaseTransport):
    """Connects each name on its own, so that no connection is shared by names that share an address."""

    def __init__(self) -> None:
        """Connect to nothing yet."""
        self._context = httpx.create_ssl_context()
        self._direct: dict[str, httpx.HTTPTransport] = {}
        self._proxied: dict[str, httpx.HTTPTransport] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the first of its addresses that can be reached."""
        proxy = _proxy_of(request.url)
        if proxy is not None:  # it alone resolves names
            return self._through(proxy).handle_request(request)
        problem = httpx.ConnectError(f"{request.url.host} has no address")
        for address in request.extensions.get(ADDRESSES, ()):
            try:
                return self._to(request.url).handle_request(_readdressed(request, address))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                problem = httpx.ConnectError(f"{request.url.host}: {error}")
        raise problem

    def close(self) -> None:
        """Close every connection."""
        for transport in (*self._direct.values(), *self._proxied.values()):
            transport.close()

    def _to(self, url: httpx.URL) -> httpx.HTTPTransport:
        name = f"{url.scheme}://{url.netloc.decode()}"
        if name not in self._direct:
            self._direct[name] = httpx.HTTPTransport(verify=self._context)
        return self._direct[name]

    def _through(self, proxy: str) -> httpx.HTTPTransport:
        if proxy not in self._proxied:
            self._proxied[proxy] = httpx.HTTPTransport(verify=self._context, proxy=proxy)
        return self._proxied[proxy]


@contextmanager
def open_client(timeout: httpx.Timeout = _TIMEOUT) -> Iterator[httpx.Client]:
    """Give a client whose redirects are followed by hand; proxies and certificates are those of the machine."""
    headers = {"user-agent": "tidegate"}
    with httpx.Client(transport=Connections(), timeout=timeout, follow_redirects=False, headers=headers) as client:
        yield client


def read_listing(
    client: httpx.Client, place: Place, headers: Mapping[str, str], most_bytes: int
) -> tuple[httpx.Response, bytes]:
    """Ask for something short, and return the answer with its body.

    Raises:
        ContentRefused: It is longer than anything of its kind.
        httpx.TransportError: It could not be asked for.
    """
    body = bytearray()
    with client.stream("GET", place.url, headers=headers, extensions=place.extensions) as response:
        for block in response.iter_bytes():
            body += block
            if len(body) > most_bytes:
                raise ContentRefused(f"{place.url.host} answers with more than {most_bytes >> 20} MiB of a listing.")
        return response, bytes(body)


def _proxy_of(url: httpx.URL) -> str | None:
    if urllib.request.proxy_bypass(url.host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(url.scheme) or proxies.get("all")


def _readdressed(request: httpx.Request, address: str) -> httpx.Request:
    extensions = dict(request.extensions) | {"sni_hostname": request.url.host}
    url = request.url.copy_with(host=address)
    return httpx.Request(request.method, url, headers=request.headers, stream=request.stream, extensions=extensions)
