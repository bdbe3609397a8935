"""How each target is reached, and what it is known to be able to do."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from gateway.egress.endpoint import Endpoint
from gateway.reach_settings import Frozen, TargetTimeouts, TlsSettings
from inference_protocol import paths


class TargetProtocol(StrEnum):
    """What a target speaks beside OpenAI's API."""

    TIDEGATE = "tidegate"
    OPENAI = "openai"


class Credential(Frozen):
    """A bearer token for one target: where it is read from, since it is never written in the settings.

    Attributes:
        systemd: Name of a credential that systemd hands the service (`LoadCredential=`).
    """

    file: Path | None = None
    env: str | None = None
    systemd: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,254}$")

    @model_validator(mode="before")
    @classmethod
    def _not_itself(cls, given: Any) -> Any:
        if isinstance(given, str):
            raise ValueError("no secret stands in the settings: say where it is, by `file`, `env` or `systemd`")
        return given

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if [self.file, self.env, self.systemd].count(None) != 2:
            raise ValueError("give exactly one of `file`, `env` and `systemd`")
        return self

    def read(self) -> SecretStr:
        """Return the token.

        Raises:
            ValueError: The file cannot be read, the variable is not set, or what is there is no token.
        """
        path = self.file if self.systemd is None else _handed_over(self.systemd)
        if path is not None:
            try:
                token = path.read_text(encoding="utf-8").strip()
            except OSError as exc:
                raise ValueError(f"the credential file {path} cannot be read: {exc.strerror}") from None
            except UnicodeDecodeError:
                raise ValueError(f"the credential file {path} is no text") from None
        else:
            found = os.environ.get(self.env or "")
            if found is None:
                raise ValueError(f"the environment variable {self.env} is not set")
            token = found.strip()
        if not token:
            raise ValueError(f"the credential in {path or self.env} is empty")
        if not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError(f"the credential in {path or self.env} is no token: it must be one word of ASCII")
        return SecretStr(token)


def _handed_over(name: str) -> Path:
    """The file of a credential that systemd hands over (systemd.exec(5))."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if folder is None:
        raise ValueError(f"systemd hands over no credentials: `LoadCredential={name}:...` in the unit does")
    return Path(folder) / name


class TargetCapabilities(Frozen):
    """What a target's models can do, where the target cannot say so itself."""

    tools: bool = True
    json_schema: bool = True
    images: bool = False
    audio: bool = False
    logprobs: bool = True
    embeddings: bool = False
    tensors: bool = False


class TargetSettings(Frozen):
    """How to reach one target.

    Attributes:
        endpoints: `unix:/path`, `http://host:port` or `https://host:port`.
        protocol: `tidegate` for runtimes of ours, which report their load; `openai` for everything else.
        models: Public model name to the name the target serves it under.
        window: Tokens of prompt and answer together, where the target cannot say so itself.
        forward_trace: Whether `traceparent` goes along; by default only to runtimes of ours.
        max_connections: To each endpoint, at once.
        max_waiting: Requests that may wait until one of them is free.
        health_path: What a target of protocol `openai` is probed at.
        proxy: `http://host:port`; connections go directly where there is none, whatever the environment says.
    """

    endpoints: tuple[str, ...] = Field(min_length=1, max_length=64)
    protocol: TargetProtocol = TargetProtocol.OPENAI
    models: dict[str, str] = Field(min_length=1)
    credential: Credential | None = None
    window: int | None = Field(default=None, gt=0)
    max_n: int = Field(default=1, gt=0)
    capabilities: TargetCapabilities = TargetCapabilities()
    forward_trace: bool | None = None
    max_connections: int = Field(default=256, gt=0)
    max_waiting: int = Field(default=256, ge=0)
    timeouts: TargetTimeouts = TargetTimeouts()
    tls: TlsSettings = TlsSettings()
    proxy: str | None = None
    health_path: str = Field(default=paths.MODELS, pattern="^/")

    @field_validator("endpoints")
    @classmethod
    def _readable(cls, endpoints: tuple[str, ...]) -> tuple[str, ...]:
        for endpoint in endpoints:
            Endpoint.parse(endpoint)
        if len(set(endpoints)) != len(endpoints):
            raise ValueError("two endpoints are the same")
        return endpoints

    @field_validator("proxy")
    @classmethod
    def _a_proxy(cls, proxy: str | None) -> str | None:
        if proxy is not None and not Endpoint.parse(proxy).is_plain_http:
            raise ValueError(f"{proxy!r} must be http://host:port")
        return proxy

    @property
    def sends_trace(self) -> bool:
        """Whether the trace context goes to this target."""
        return self.protocol is TargetProtocol.TIDEGATE if self.forward_trace is None else self.forward_trace

    def credential_headers(self) -> dict[str, str]:
        """Read the target's `Authorization` header; without a credential no header is sent at all.

        Raises:
            ValueError: The credential cannot be read.
        """
        if self.credential is None:
            return {}
        return {"authorization": f"Bearer {self.credential.read().get_secret_value()}"}
