"""How this installation runs: addresses, targets and how to reach them, limits. What may go where is the policy's."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from gateway.detector_settings import DetectorSettings
from gateway.egress.endpoint import Endpoint
from gateway.kept_settings import DetachedSettings, OutboxSettings, Permission
from gateway.reach_settings import AttemptSettings, BreakerSettings, TargetTimeouts, TimeoutSettings, TlsSettings
from gateway.reach_settings import Frozen as _Frozen
from gateway.rollout_settings import RolloutSettings
from gateway.runtime_settings import CloudRuntimeSettings, EdgeRuntimeSettings
from gateway.state_folder import StateFolder
from inference_protocol import paths
from routing_policies.signals.label import DataClass
from serving.listener import is_loopback

DEFAULT_MODEL = "smollm2-135m-instruct"
STAND_IN_PORT = 8090
Port = Annotated[int, Field(ge=0, le=65535)]


class Listen(_Frozen):
    """An address to listen on."""

    host: str = "127.0.0.1"
    port: Port = 8080

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)


class AdminListen(Listen):
    """The address of the admin listener: state, policies, and what else only operators may see."""

    port: Port = 8081


class TargetProtocol(StrEnum):
    """What a target speaks beside OpenAI's API."""

    TIDEGATE = "tidegate"
    OPENAI = "openai"


class Credential(_Frozen):
    """A bearer token for one target, read from a file or the environment, never written in the settings."""

    file: Path | None = None
    env: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.file is None) == (self.env is None):
            raise ValueError("give exactly one of `file` and `env`")
        return self

    def read(self) -> SecretStr:
        """Return the token.

        Raises:
            ValueError: The file cannot be read, the variable is not set, or what is there is empty.
        """
        if self.file is not None:
            try:
                token = self.file.read_text(encoding="utf-8").strip()
            except OSError as exc:
                raise ValueError(f"the credential file {self.file} cannot be read: {exc.strerror}") from None
        else:
            found = os.environ.get(self.env or "")
            if found is None:
                raise ValueError(f"the environment variable {self.env} is not set")
            token = found.strip()
        if not token:
            raise ValueError(f"the credential in {self.file or self.env} is empty")
        return SecretStr(token)


class TargetCapabilities(_Frozen):
    """What a target's models can do, where the target cannot say so itself."""

    tools: bool = True
    json_schema: bool = True
    images: bool = False
    audio: bool = False
    logprobs: bool = True
    embeddings: bool = False


class TargetSettings(_Frozen):
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


ClassWord = Literal["public", "internal", "confidential", "restricted"]


class ApiKey(_Frozen):
    """A caller's key: `<id>.<secret>` as a bearer token, of which only the secret's sha256 is kept here.

    Attributes:
        uninspected: Class of the images, audio and files that come with this key, instead of the policy's: whoever runs
            a door camera knows what its pictures show.
        may: What it may ask for beside an answer: that answers be finished without it, that requests be put off.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9_-]{4,64}$")
    secret_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    tenant: str = Field(min_length=1, max_length=128)
    data_class: ClassWord | None = None
    data_tags: tuple[str, ...] = ()
    uninspected: dict[Literal["image", "audio", "blob"], ClassWord] = Field(default_factory=dict)
    residency: str = ""
    roles: tuple[str, ...] = ("inference",)
    concurrent_requests: int | None = Field(default=None, gt=0)
    requests_per_minute: int | None = Field(default=None, gt=0)
    may: tuple[Permission, ...] = ()

    @property
    def level(self) -> DataClass | None:
        """The class that everything sent with this key has at least."""
        return None if self.data_class is None else DataClass.from_word(self.data_class)


class Auth(_Frozen):
    """Who may call. Without keys every caller is the principal `local`, which only a loopback address allows.

    Attributes:
        local_may: What `local` may ask for beside an answer.
    """

    keys: tuple[ApiKey, ...] = ()
    local_may: tuple[Permission, ...] = ()


class Limits(_Frozen):
    """Bounds on what is taken in and given back."""

    body_bytes: int = Field(default=32 << 20, gt=0)
    answer_bytes: int = Field(default=32 << 20, gt=0)
    concurrent_requests: int = Field(default=1024, gt=0)
    body_bytes_in_flight: int = Field(default=256 << 20, gt=0)


# Generations of the conventions for generative AI: metrics of attempts were renamed between them.
GenAiConventions = Literal["genai-0.1", "semconv-1.41"]


class TelemetrySettings(_Frozen):
    """Where traces and metrics go beside the state folder and the admin listener, and what they tell apart.

    Attributes:
        genai_conventions: Which names metrics of attempts have.
        metric_tenants: How many tenants metrics tell apart, the first that come; all others are `other`.
    """

    otlp_endpoint: str | None = None
    sample_ratio: float = Field(default=1.0, ge=0.0, le=1.0)
    trust_inbound_trace: bool = False
    genai_conventions: GenAiConventions = "genai-0.1"
    metric_tenants: int = Field(default=0, ge=0, le=1000)


# What a record outlives once it is written: the end of the process, or of the power too.
Durability = Literal["process", "disk"]


class RecordSettings(_Frozen):
    """How decision and outcome records are kept."""

    durability: Durability = "process"
    max_bytes: int = Field(default=64 << 20, gt=0)
    files: int = Field(default=8, gt=0)


KeyName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
PublicKeyText = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{43}=$", description="32 bytes of Ed25519 in base64.")]


class ModelSettings(_Frozen):
    """Which models may be served, and where they are pulled from.

    Attributes:
        signatures: `required`: one of the keys in the state folder must have signed a model. `dev`: anything may run.
        trusted_keys: Names of further keys that vouch for models, to public keys in base64.
        hub: Base address of a model hub, instead of the one that the machine is set up for.
    """

    signatures: Literal["required", "dev"] = "required"
    trusted_keys: dict[KeyName, PublicKeyText] = Field(default_factory=dict)
    hub: str | None = Field(default=None, pattern=r"^https?://[^/?#]+[^?#]*$")


def default_state_dir() -> Path:
    """`TIDEGATE_STATE_DIR`, or the user's state folder by the XDG base directory specification."""
    named = os.environ.get("TIDEGATE_STATE_DIR")
    if named:
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "tidegate"


class Settings(_Frozen):
    """The root of the settings file.

    Attributes:
        policy: A built-in policy's name, or the path of a policy file.
        default_model: The public model that `auto` stands for.
        targets: By name; the policy says what may go to each. `edge` and `cloud` exist unless set to null.
        metered: Whether each byte that this device sends or gets costs; policies may prefer to stay on it then.
    """

    state_dir: Path = Field(default_factory=default_state_dir)
    listen: Listen = Listen()
    admin: AdminListen = AdminListen()
    policy: str = "balanced"
    rollout: RolloutSettings = RolloutSettings()
    default_model: str = DEFAULT_MODEL
    targets: dict[str, TargetSettings] = Field(default_factory=dict)
    detectors: DetectorSettings = DetectorSettings()
    auth: Auth = Auth()
    limits: Limits = Limits()
    timeouts: TimeoutSettings = TimeoutSettings()
    metered: bool = False
    attempts: AttemptSettings = AttemptSettings()
    breaker: BreakerSettings = BreakerSettings()
    detached: DetachedSettings = DetachedSettings()
    outbox: OutboxSettings = OutboxSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    records: RecordSettings = RecordSettings()
    edge: EdgeRuntimeSettings = EdgeRuntimeSettings()
    cloud: CloudRuntimeSettings = CloudRuntimeSettings()
    models: ModelSettings = ModelSettings()

    @model_validator(mode="before")
    @classmethod
    def _built_in_targets(cls, data: Any) -> Any:
        """Fill in the two default targets, and the fields that a file leaves out of them."""
        if not isinstance(data, dict):
            return data
        state_dir = Path(data.get("state_dir") or default_state_dir())
        given = data.get("targets") or {}
        if not isinstance(given, dict):
            return data
        merged: dict[str, Any] = {}
        for name, defaults in _default_targets(state_dir).items():
            own = given.get(name, {})
            if own is not None:
                merged[name] = {**defaults, **own} if isinstance(own, dict) else own
        merged.update({name: own for name, own in given.items() if name not in merged and own is not None})
        return {**data, "targets": merged}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name, address in (("listen", self.listen), ("admin", self.admin)):
            if not address.is_loopback and not self.auth.keys:
                raise ValueError(
                    f"{name}.host {address.host!r} can be reached from other machines, so `auth.keys` must name at "
                    "least one key; or listen on 127.0.0.1"
                )
        served = {model for target in self.targets.values() for model in target.models}
        if self.default_model not in served:
            raise ValueError(f"default_model {self.default_model!r} is served by no target; there are {sorted(served)}")
        ids = [key.id for key in self.auth.keys]
        if len(set(ids)) != len(ids):
            raise ValueError("auth.keys: two keys have the same id")
        return self

    @property
    def folder(self) -> StateFolder:
        """Where each thing lies in the state folder."""
        return StateFolder(self.state_dir)

    @property
    def starts_edge(self) -> bool:
        """Whether the target `edge` is the runtime that `tidegate up` starts: it is while it has the default socket."""
        edge = self.targets.get("edge")
        return edge is not None and edge.endpoints == (_edge_endpoint(self.folder),)

    @property
    def stand_in_port(self) -> int | None:
        """The port that `tidegate up` starts the cloud stand-in on, or `None` where `cloud` is somebody else's.

        It is ours to start while the target speaks our runtimes' protocol at 127.0.0.1.
        """
        cloud = self.targets.get("cloud")
        if cloud is None or cloud.protocol is not TargetProtocol.TIDEGATE:
            return None
        base = Endpoint.parse(cloud.endpoints[0]).base
        return base.port if base.host == "127.0.0.1" else None


def _edge_endpoint(folder: StateFolder) -> str:
    return f"unix:{folder.edge_socket.absolute()}"


def _default_targets(state_dir: Path) -> dict[str, dict[str, Any]]:
    models = {DEFAULT_MODEL: DEFAULT_MODEL}
    return {
        "edge": {
            "endpoints": [_edge_endpoint(StateFolder(state_dir))],
            "protocol": "tidegate",
            "models": models,
        },
        "cloud": {"endpoints": [f"http://127.0.0.1:{STAND_IN_PORT}"], "protocol": "tidegate", "models": models},
    }
