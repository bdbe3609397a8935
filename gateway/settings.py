"""How this installation runs: addresses, targets and how to reach them, limits. What may go where is the policy's."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from gateway.access_settings import Auth
from gateway.detector_settings import DetectorSettings
from gateway.egress.endpoint import Endpoint
from gateway.kept_settings import DetachedSettings, OutboxSettings
from gateway.reach_settings import AttemptSettings, BreakerSettings, Frozen, TimeoutSettings
from gateway.rollout_settings import RolloutSettings
from gateway.runtime_settings import CloudRuntimeSettings, EdgeRuntimeSettings
from gateway.state_folder import StateFolder
from gateway.target_settings import TargetProtocol, TargetSettings
from gateway.telemetry_settings import TelemetrySettings
from serving.listener import is_loopback
from serving.server_tls import ServerTls, TlsFiles
from serving.web_guard import Pages

DEFAULT_MODEL = "smollm2-135m-instruct"
DEFAULT_EMBEDDING_MODEL = "all-minilm-l6-v2"
STAND_IN_PORT = 8090
Port = Annotated[int, Field(ge=0, le=65535)]
HostName = Annotated[str, Field(pattern=r"^([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])$")]
# As browsers write it: scheme, host, and a port that is not the usual one. `*` and `null` would be everybody.
Origin = Annotated[str, Field(pattern=r"^[a-z][a-z0-9+.-]*://[a-z0-9.\-:\[\]_]+$", max_length=300)]


class ListenTls(Frozen):
    """PEM files of an address; those that change are taken up by new connections.

    Attributes:
        client_ca_file: Whose certificates clients must show, beside their keys.
        client_names: One of them must be in that certificate as a subject's alternative name: a DNS name, a URI such as
            `spiffe://acme/phone`, an address. Any will do where there are none.
    """

    certificate_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    client_names: tuple[Annotated[str, Field(min_length=1, max_length=500)], ...] = ()

    @model_validator(mode="after")
    def _names_of_somebody(self) -> Self:
        if self.client_names and self.client_ca_file is None:
            raise ValueError("client_names: nobody shows a certificate unless `client_ca_file` is set")
        return self


class Listen(Frozen):
    """An address to listen on.

    Attributes:
        hosts: Names that callers may ask for, beside the machine's own on a loopback address; elsewhere any, without.
        cors_origins: Web pages that may ask, letter by letter.
        tls: What connections are made under, if not in the clear.
    """

    host: str = "127.0.0.1"
    port: Port = 8080
    hosts: tuple[HostName, ...] = ()
    cors_origins: tuple[Origin, ...] = ()
    tls: ListenTls | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    def secured(self) -> ServerTls | None:
        """Return what connections are made under.

        Raises:
            StartRefused: A file cannot be used.
        """
        if self.tls is None:
            return None
        own = self.tls
        names = frozenset(own.client_names)
        return ServerTls(TlsFiles(own.certificate_file, own.key_file, own.client_ca_file, names))

    def pages(self, exposed: Collection[str] = ()) -> Pages:
        """What is let in here; `exposed` are the header fields of answers that pages may read."""
        return Pages.of(self.host, self.hosts, self.cors_origins, exposed)


class AdminListen(Listen):
    """The address of the admin listener: state, policies, and what else only operators may see."""

    port: Port = 8081


class Limits(Frozen):
    """Bounds on what is taken in and given back."""

    body_bytes: int = Field(default=32 << 20, gt=0)
    answer_bytes: int = Field(default=32 << 20, gt=0)
    concurrent_requests: int = Field(default=1024, gt=0)
    body_bytes_in_flight: int = Field(default=256 << 20, gt=0)


# What a record outlives once it is written: the end of the process, or of the power too.
Durability = Literal["process", "disk"]


class RecordSettings(Frozen):
    """How decision and outcome records are kept."""

    durability: Durability = "process"
    max_bytes: int = Field(default=64 << 20, gt=0)
    files: int = Field(default=8, gt=0)


KeyName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
PublicKeyText = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{43}=$", description="32 bytes of Ed25519 in base64.")]


class ModelSettings(Frozen):
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


class Settings(Frozen):
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
        edge = data.get("edge")
        tensors = edge.get("tensor_models") if isinstance(edge, dict) else None
        for name, defaults in _default_targets(state_dir, tensors if isinstance(tensors, list) else ()).items():
            own = given.get(name, {})
            if own is not None:
                merged[name] = {**defaults, **own} if isinstance(own, dict) else own
        merged.update({name: own for name, own in given.items() if name not in merged and own is not None})
        return {**data, "targets": merged}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name, address in (("listen", self.listen), ("admin", self.admin)):
            if not address.is_loopback and not self.auth.is_promised:
                raise ValueError(
                    f"{name}.host {address.host!r} can be reached from other machines, so callers must show a "
                    "key: set `auth.required: true` and make keys with `tidegate keys create`; or listen on 127.0.0.1"
                )
        served = {model for target in self.targets.values() for model in target.models}
        if self.default_model not in served:
            raise ValueError(f"default_model {self.default_model!r} is served by no target; there are {sorted(served)}")
        self._require_models_of_pictures()
        ids = [key.id for key in self.auth.keys]
        if len(set(ids)) != len(ids):
            raise ValueError("auth.keys: two keys have the same id")
        return self

    def _require_models_of_pictures(self) -> None:
        pictures = self.detectors.pictures
        if pictures is None or pictures.endpoint is not None or not self.starts_edge:
            return
        missing = {pictures.detection_model, pictures.recognition_model}.difference(self.edge.tensor_models)
        if missing:
            raise ValueError(
                f"detectors.pictures needs {' and '.join(sorted(missing))} among `edge.tensor_models`; "
                f"`tidegate models build {' '.join(sorted(missing))}` makes them"
            )

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


def _default_targets(state_dir: Path, tensor_models: Sequence[Any]) -> dict[str, dict[str, Any]]:
    models = {name: name for name in (DEFAULT_MODEL, DEFAULT_EMBEDDING_MODEL)}
    return {
        "edge": {
            "endpoints": [_edge_endpoint(StateFolder(state_dir))],
            "protocol": "tidegate",
            "models": {**models, **{str(name): name for name in tensor_models}},
        },
        "cloud": {"endpoints": [f"http://127.0.0.1:{STAND_IN_PORT}"], "protocol": "tidegate", "models": models},
    }
