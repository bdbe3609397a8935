"""An identity provider: keys, tokens good and bad, and the address at which it shows its keys."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ISSUER = "https://login.example.com/"
AUDIENCE = "tidegate"


def base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@dataclass
class SigningKey:
    """One key of a provider."""

    kid: str
    algorithm: str = "ES256"

    @cached_property
    def private(self) -> Any:
        if self.algorithm.startswith("ES"):
            return ec.generate_private_key(ec.SECP256R1())
        return rsa.generate_private_key(65537, 2048)

    @property
    def jwk(self) -> dict[str, Any]:
        kind: Any = ECAlgorithm if self.algorithm.startswith("ES") else RSAAlgorithm
        data: dict[str, Any] = json.loads(kind.to_jwk(self.private.public_key()))
        return {**data, "kid": self.kid, "use": "sig", "alg": self.algorithm}

    @property
    def pem(self) -> bytes:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        pem: bytes = self.private.public_key().public_bytes(serialization.Encoding.PEM, form)
        return pem


@dataclass
class Provider:
    """Signs tokens."""

    keys: list[SigningKey] = field(default_factory=lambda: [SigningKey("first")])
    issuer: str = ISSUER

    @property
    def jwks(self) -> bytes:
        return json.dumps({"keys": [key.jwk for key in self.keys]}).encode()

    def claims(self, **other: Any) -> dict[str, Any]:
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 600, **other}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, *, key: SigningKey | None = None, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        key = key or self.keys[0]
        headers = {"kid": key.kid, **(headers or {})}
        headers = {name: value for name, value in headers.items() if value is not None}
        return jwt.encode(self.claims(**claims), key.private, algorithm=key.algorithm, headers=headers)

    def forged(self, head: dict[str, Any], secret: bytes | None) -> str:
        """A token that no library would make: unsigned, or signed by HMAC with whatever is at hand."""
        parts = ".".join(base64url(json.dumps(each).encode()) for each in (head, self.claims()))
        signature = b"" if secret is None else hmac.new(secret, parts.encode(), hashlib.sha256).digest()
        return f"{parts}.{base64url(signature)}"


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


class KeyHost:
    """Shows a provider's keys over HTTP while it is entered, and counts how often it was asked."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.asked = 0
        self.body: bytes | None = None
        # What it says of itself, for those who look for its keys.
        self.about: dict[str, Any] = {}
        self.paths: list[str] = []
        self.status = 200
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in list(self._writers):
                writer.transport.abort()
            self.may_answer.set()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            request = await reader.readuntil(b"\r\n\r\n")
            self.paths.append(request.split(b" ", 2)[1].decode())
            self.asked += 1
            await self.may_answer.wait()
            body = self.provider.jwks if self.body is None else self.body
            if self.paths[-1].endswith("/.well-known/openid-configuration"):
                body = json.dumps(self.about).encode()
            head = f"HTTP/1.1 {self.status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            writer.write(head.encode() + b"connection: close\r\n\r\n" + body)
            await writer.drain()
        self._writers.discard(writer)
        writer.close()
