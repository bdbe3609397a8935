"""Where an issuer's document of keys is read: an address, a file, or an address that the issuer itself names.

The last is OpenID Connect Discovery 1.0. What is asked is the issuer that the settings name and nobody else: an address
of keys on another host is refused, and it must then be set by hand.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Protocol

from yarl import URL

from gateway.egress.control import ControlDoor
from gateway.egress.endpoint import Endpoint
from gateway.egress.session import Reach
from gateway.egress.small_answer import MAX_ANSWER_BYTES
from gateway.egress.tls import TlsSource
from gateway.egress.transport import AiohttpTransport
from gateway.issuer_settings import IssuerSettings

_TIMEOUT_S = 2.0
_WELL_KNOWN = "/.well-known/openid-configuration"


class KeySource(Protocol):
    """Gives the document of keys."""

    async def read(self) -> bytes:
        """Return it.

        Raises:
            UpstreamError: It cannot be fetched.
            OSError: It cannot be read, or what connections need cannot.
            ValueError: Likewise.
        """
        ...

    async def aclose(self) -> None:
        """Let go of what it holds."""
        ...


class _Address:
    """Fetches documents from one host."""

    def __init__(self, settings: IssuerSettings, endpoint: Endpoint) -> None:
        proxy = None if settings.proxy is None else URL(settings.proxy)
        server_name = settings.tls.server_name
        reach = Reach(
            endpoint, connect_timeout_s=_TIMEOUT_S, max_connections=1, proxy=proxy, server_name=server_name
        )  # fmt: skip
        self._endpoint = endpoint
        self._transport = AiohttpTransport(reach, TlsSource(settings.tls))
        self._door = ControlDoor(endpoint, self._transport)

    async def read(self) -> bytes:
        await self._transport.renew()
        return await self._door.get("", timeout_s=_TIMEOUT_S)

    async def aclose(self) -> None:
        await self._door.aclose()


class _Discovered(_Address):
    """Asks the issuer where its keys are, each time: it may move them."""

    def __init__(self, settings: IssuerSettings) -> None:
        super().__init__(settings, Endpoint.parse(settings.issuer))
        self._issuer = settings.issuer

    async def read(self) -> bytes:
        await self._transport.renew()
        about = await self._door.get(_WELL_KNOWN, timeout_s=_TIMEOUT_S)
        keys = ControlDoor(self._of_the_issuer(about), self._transport)
        return await keys.get("", timeout_s=_TIMEOUT_S)

    def _of_the_issuer(self, about: bytes) -> Endpoint:
        """Return where the keys are.

        Raises:
            ValueError: That is not said, or by somebody else than the issuer, or they are not at its host.
        """
        try:
            found = json.loads(about)
            issuer, address = found["issuer"], found["jwks_uri"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ValueError("what the issuer says of itself cannot be read") from None
        # Letter by letter, as OpenID Connect Discovery 1.0 §4.3 asks: else one host could speak for another.
        if issuer != self._issuer:
            raise ValueError("the issuer calls itself something else than `issuer`")
        endpoint = Endpoint.parse(address) if isinstance(address, str) else None
        if endpoint is None or _origin(endpoint) != _origin(self._endpoint):
            raise ValueError("the issuer keeps its keys on another host: set `jwks_url` instead of `discover`")
        return endpoint


class _File:
    """Reads a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> bytes:
        def whole() -> bytes:
            with self._path.open("rb") as file:
                return file.read(MAX_ANSWER_BYTES + 1)

        return await asyncio.to_thread(whole)

    async def aclose(self) -> None:
        return


def source_of(settings: IssuerSettings) -> KeySource:
    """Return where an issuer's keys come from; nothing is opened yet."""
    if settings.jwks_file is not None:
        return _File(settings.jwks_file)
    if settings.jwks_url is not None:
        return _Address(settings, Endpoint.parse(settings.jwks_url))
    return _Discovered(settings)


def _origin(endpoint: Endpoint) -> tuple[str | None, str, str, int | None]:
    base = endpoint.base
    return endpoint.socket_path, base.scheme, base.host, base.port
