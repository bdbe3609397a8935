"""What is known of one execution provider: whether it is here, and how a graph is opened on it."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnxruntime as ort

from edge_runtime.providers.sessions import ORT_ERRORS

Session = Any
"""`onnxruntime.InferenceSession`, or what stands in for one in a test of faults."""

# Where the kernel tells the version of what drives accelerators.
_MODULES = ("nvidia", "amdgpu", "amdxdna", "i915", "xe", "intel_vpu", "qaic", "msm")
_TOLD = ("driver", "version", "device_name", "architecture")
DEVICE = "run_on"
_BEST_FIRST = ("NPU", "GPU", "CPU")


@dataclass(frozen=True, slots=True)
class Option:
    """One option that a provider takes, and what it is without being told."""

    name: str
    meaning: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What a look for one provider found.

    Attributes:
        name: As the settings call it.
        provider: As ONNX Runtime does.
        installed: Whether its code is here.
        version: Of that code.
        driver: What stands between it and the hardware, in words: when they change, what was measured no longer holds.
        devices: Kinds of hardware that it has found: CPU, GPU, NPU.
        problem: Why it cannot be used, for a person.
    """

    name: str
    provider: str
    installed: bool
    version: str = ""
    driver: str = ""
    devices: tuple[str, ...] = ()
    problem: str | None = None


class OptionUnknown(ValueError):
    """A provider has no such option. ONNX Runtime would ignore it without a word."""


@dataclass(frozen=True, slots=True)
class Adapter(ABC):
    """One provider.

    Attributes:
        name: In settings and reports.
        provider: ONNX Runtime's name.
        hardware: What it computes on.
        install: What a person does to have it.
        options: All that it is known to take.
        static_on: Kinds of its devices that run graphs of fixed shapes alone.
        cache_option: The option that names a folder for compiled graphs, of a provider that keeps them.
    """

    name: str
    provider: str
    hardware: str
    install: str
    options: tuple[Option, ...] = ()
    static_on: frozenset[str] = frozenset()
    cache_option: str | None = None

    @abstractmethod
    def absent(self) -> Found | None:
        """Return that it is not installed; `None` where it is. Loads nothing of it."""

    @abstractmethod
    def find(self) -> Found:
        """Look for its devices. Loads its code, so only a process that may crash should do this."""

    @abstractmethod
    def open(self, path: Path, options: ort.SessionOptions, given: Mapping[str, str]) -> Session:
        """Open a graph on it, whatever part of the graph it takes.

        Args:
            path: The graph.
            options: What every session is told.
            given: Its own options, complete.
        """

    def complete(self, given: Mapping[str, str], cache: Path | None) -> dict[str, str]:
        """Return options with the defaults for those that are not given.

        Raises:
            OptionUnknown: The message lists those that there are.
        """
        known = {option.name: option.default for option in self.options}
        unknown = sorted(given.keys() - known.keys())
        if unknown:
            there_are = ", ".join(known) or "none"
            raise OptionUnknown(
                f"edge.providers.options.{self.name}: there is no option `{unknown[0]}`. There are: {there_are}."
            )
        kept = {} if self.cache_option is None or cache is None else {self.cache_option: str(cache)}
        return {name: value for name, value in known.items() if value is not None} | kept | dict(given)

    def kind(self, devices: Sequence[str], given: Mapping[str, str]) -> str | None:
        """Return which kind of the devices is taken: the one that is asked for, else NPU before GPU before CPU."""
        asked = given.get(DEVICE, "").upper()
        return next((kind for kind in ([asked] if asked else _BEST_FIRST) if kind in devices), None)


@dataclass(frozen=True, slots=True)
class PluginAdapter(Adapter):
    """A provider in a package of its own, beside any build of ONNX Runtime from 1.23 on.

    Attributes:
        package: The distribution.
        module: Its module, which knows where its library lies.
        locator: The function that says so.
        environment: What its library reads from the environment, where nothing is said there.
    """

    package: str = ""
    module: str = ""
    locator: str = "get_library_path"
    environment: Mapping[str, str] = field(default_factory=dict)

    def absent(self) -> Found | None:  # noqa: D102  # see `Adapter`
        if importlib.util.find_spec(self.module) is not None:
            return None
        return Found(self.name, self.provider, installed=False, problem=f"not installed: {self.install}")

    def find(self) -> Found:  # noqa: D102  # see `Adapter`
        version = importlib.metadata.version(self.package)
        try:
            self._register()
        except (ImportError, AttributeError, OSError, RuntimeError, *ORT_ERRORS) as error:
            problem = f"its library cannot be loaded: {type(error).__name__}: {str(error)[:300]}"
            return Found(self.name, self.provider, installed=True, version=version, problem=problem)
        devices = self._devices()
        if not devices:
            problem = f"it loads, and finds nothing to run on: it needs {self.hardware}"
            return Found(self.name, self.provider, installed=True, version=version, problem=problem)
        kinds = tuple(dict.fromkeys(device.device.type.name for device in devices))
        driver = "; ".join(sorted({_described(device) for device in devices}))
        return Found(self.name, self.provider, installed=True, version=version, driver=driver, devices=kinds)

    def open(self, path: Path, options: ort.SessionOptions, given: Mapping[str, str]) -> Session:  # noqa: D102  # see `Adapter`
        self._register()
        devices = self._devices()
        kind = self.kind([device.device.type.name for device in devices], given)
        if kind is None:
            raise RuntimeError(f"{self.provider} has no device {given.get(DEVICE, '')} here")
        chosen = next(device for device in devices if device.device.type.name == kind)
        own = {name: value for name, value in given.items() if name != DEVICE}
        options.add_provider_for_devices([chosen], own)
        return ort.InferenceSession(str(path), options)

    def _register(self) -> None:
        if self._devices():
            return  # a library can be registered once a process
        for name, value in self.environment.items():
            os.environ.setdefault(name, value)
        library = getattr(importlib.import_module(self.module), self.locator)()
        ort.register_execution_provider_library(self.name, str(Path(library).absolute()))

    def _devices(self) -> list[Any]:
        return [device for device in ort.get_ep_devices() if device.ep_name == self.provider]


@dataclass(frozen=True, slots=True)
class BuiltInAdapter(Adapter):
    """A provider that some builds of ONNX Runtime hold.

    Attributes:
        kinds: Of devices that it computes on.
        signs: Paths of which one is there where its hardware is. A build lists the provider wherever it runs.
    """

    kinds: tuple[str, ...] = ("GPU",)
    signs: tuple[str, ...] = ()

    def absent(self) -> Found | None:  # noqa: D102  # see `Adapter`
        if self.provider in ort.get_available_providers():
            return None
        problem = f"not in this build of onnxruntime: {self.install}"
        return Found(self.name, self.provider, installed=False, problem=problem)

    def find(self) -> Found:  # noqa: D102  # see `Adapter`
        version = str(ort.__version__)
        if self.signs and not any(Path(sign).exists() for sign in self.signs):
            problem = f"this build has it, and its hardware is not here: it needs {self.hardware}"
            return Found(self.name, self.provider, installed=True, version=version, problem=problem)
        driver = kernel_drivers() if self.kinds != ("CPU",) else platform.machine()
        return Found(self.name, self.provider, installed=True, version=version, driver=driver, devices=self.kinds)

    def open(self, path: Path, options: ort.SessionOptions, given: Mapping[str, str]) -> Session:  # noqa: D102  # see `Adapter`
        own = {name: value for name, value in given.items() if name != DEVICE}
        providers = [(self.provider, own), *(["CPUExecutionProvider"] if self.kinds != ("CPU",) else [])]
        session = ort.InferenceSession(str(path), options, providers=providers)
        session.disable_fallback()  # a session that fails would be opened on the CPU without a word
        return session


def _described(device: Any) -> str:
    """Say what stands between a plugin and one of its devices, leaving out where files lie."""
    told = {**dict(device.device.metadata), **dict(device.ep_metadata)}
    facts = [f"{key}={told[key]}" for key in sorted(told) if any(part in key.lower() for part in _TOLD)]
    kind = device.device.type.name
    kernel = [] if kind == "CPU" else [kernel_drivers()]
    return " ".join([kind, str(device.device.vendor), f"id={device.device.device_id}", *facts, *kernel])


def kernel_drivers(root: Path = Path("/sys/module")) -> str:
    """Return the kernel's release and the versions of its drivers of accelerators."""
    found = [f"kernel={platform.release()}"]
    for module in _MODULES:
        try:
            found.append(f"{module}={(root / module / 'version').read_text(encoding='ascii').strip()}")
        except (OSError, UnicodeDecodeError):
            continue
    return " ".join(found)
