"""The engine that requests go to: it serves the version that is active, and exchanges it while requests run.

    beside   both fit in memory: the new version is loaded while the old one serves
    after    they do not: new requests wait for the new version, which is loaded once the old one's streams have ended

Either way a stream ends on the version that it began on. A version that cannot be loaded leaves the old one serving,
and the state says why. A request is meant for the version whose tokenizer made its prompt (`GenerationJob.version`).
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge_runtime.generation.engine import SlotEngine
from edge_runtime.generation.loading import EngineSettings
from edge_runtime.residency.memory import TooLittleMemory, available_bytes
from edge_runtime.residency.resident import OpenedVersion, Resident, open_version
from inference_protocol.engine_steps import EngineStep
from inference_protocol.runtime_state import RuntimeState, RuntimeStatus
from runtime_server import model_manifest
from runtime_server.chat_model import ChatModel
from runtime_server.chat_models import ChatModels
from runtime_server.engine import Engine, Generation, GenerationJob, NotReady
from runtime_server.model_manifest import ModelMissing

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResidencyPolicy:
    """When a model that nobody asks is unloaded; the next request loads it again.

    Attributes:
        keep_alive_s: After so long without a request; `None` keeps it.
        unload_below_bytes: When less than this is available in memory; `None` does not look.
        look_every_s: How often the active version and the memory are looked at.
        grace_s: How long an idle old version stays for requests whose prompt was made for it.
    """

    keep_alive_s: float | None = None
    unload_below_bytes: int | None = None
    look_every_s: float = 1.0
    grace_s: float = 2.0


class ResidentEngine:
    """A `runtime_server.engine.Engine` over the versions of one model. It belongs to the event loop."""

    def __init__(
        self,
        settings: EngineSettings,
        models: ChatModels,
        policy: ResidencyPolicy,
        *,
        build: Callable[[EngineSettings], Engine] = SlotEngine,
        available: Callable[[], int | None] = available_bytes,
        loaded: Callable[[RuntimeState], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Build it; `start` loads the active version.

        Args:
            settings: Of each version's engine. The folder is the model's name in the store, or a version's own.
            models: Told how to talk to each version.
            policy: When a version is unloaded.
            build: Makes an engine.
            available: Bytes that this process may still take, or `None` where nobody tells.
            loaded: Told the state of a version that was loaded, in a thread.
            clock: Seconds that agree with the event loop's.
        """
        self._settings = settings
        self._models = models
        self._policy = policy
        self._build = build
        self._available = available
        self._loaded = loaded
        self._clock = clock
        self._current: Resident | None = None
        self._retiring: list[tuple[Resident, float]] = []  # with the moment from which it may go
        self._serving = False
        self._settled = ""  # id of an active version that is not to be loaded, or not again
        self._note: str | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the active version.

        Raises:
            ModelMissing: There is none.
            ModelDamaged: A file is not what the manifest says.
            ModelUnsupported: It is not one that this engine can run.
            TooLittleMemory: It does not fit.
        """
        self._current = await self._open(self._models.latest)
        await self._load(self._current)
        self._serving = True
        self._watcher = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Cancel what runs and free every version."""
        self._serving = False
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait([self._watcher])
        for resident in [*([self._current] if self._current else []), *(old for old, _ in self._retiring)]:
            await resident.close()

    def submit(self, job: GenerationJob) -> Generation:
        """Admit a request.

        Raises:
            QueueFull: Every slot and every place in the queue is taken.
            NotReady: No version is served, or the one that the job is meant for is not any more.
        """
        if not self._serving or self._current is None:
            raise NotReady
        known = (self._current, *(old for old, _ in self._retiring))
        wanted = next((each for each in known if job.version in {"", each.digest}), None)
        if wanted is None:
            raise NotReady
        return wanted.submit(job)

    def steps(self) -> Sequence[EngineStep]:
        """Return what the version that new requests go to did lately."""
        return () if self._current is None else self._current.steps()

    def state(self) -> RuntimeState:
        """Return load and speed of the version that new requests go to; what still runs on old ones counts."""
        if self._current is None:
            return RuntimeState(status=RuntimeStatus.STARTING, detail=self._note)
        state = self._current.state()
        if not self._serving and state.status is RuntimeStatus.READY:
            state = state.model_copy(update={"status": RuntimeStatus.STARTING, "models": ()})
        old = [resident.state() for resident, _ in self._retiring]
        counts = {
            name: getattr(state, name) + sum(getattr(each, name) for each in old)
            for name in ("running", "waiting", "prefill_tokens_queued")
        }
        return state.model_copy(update=counts | {"detail": state.detail or self._note})

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._policy.look_every_s)
            await self._retire_idle()
            await self._follow_active()
            await self._unload_unused()

    async def _follow_active(self) -> None:
        """Exchange the version if another one is active; whatever is wrong with that one, the watch goes on."""
        assert self._current is not None
        try:
            active = await asyncio.to_thread(model_manifest.manifest_id, self._settings.folder)
        except (ModelMissing, OSError):  # removed, or being switched: what is served stays
            return
        try:
            if active == self._current.opened.id:
                self._settled, self._note = "", None
            if active in (self._current.opened.id, self._settled):
                return
            new = await self._open()
            if new.digest == self._current.digest:  # the same files under another manifest
                await new.close()
                self._settled, self._note = active, None
                return
            self._settled, self._note = active, f"The version {active[:12]} is being loaded."
            await self._exchange(new)
        except Exception as error:
            self._settled = active
            self._refuse(active[:12], error)

    async def _exchange(self, new: Resident) -> None:
        old = self._current
        assert old is not None
        available, need = self._available(), new.opened.need
        if available is None or need.total <= available:
            await new.load()
            if new.failure is None:
                self._retiring.append((old, self._clock() + self._policy.grace_s))
        elif need.total <= available + old.held_bytes:
            await self._load_after(old, new)
        else:
            new.failure = TooLittleMemory(need, available + old.held_bytes)
        if new.failure is not None:
            self._refuse(new.opened.id[:12], new.failure)
            self._forget(new)
            await new.close()
            return
        self._models.add(new.digest, new.opened.chat)
        self._current, self._note = new, None
        await self._tell(new)
        _logger.info("Serving the version %s", new.opened.id[:12])

    async def _load_after(self, old: Resident, new: Resident) -> None:
        """Let new requests wait for the new version, and load it when the old one's streams have ended."""
        self._note = f"The version {new.opened.id[:12]} is loaded once the streams of the old one have ended."
        self._models.add(new.digest, new.opened.chat)
        self._retiring.append((old, math.inf))
        self._current = new
        await new.load(after=self._unload_when_idle(old))
        if new.failure is None:
            self._forget(old)
            await old.close()
        else:
            self._current = old
            old.load()

    async def _unload_when_idle(self, old: Resident) -> None:
        while not old.is_idle:  # noqa: ASYNC110  # an engine only tells its state
            await asyncio.sleep(self._policy.look_every_s / 10)
        self._retiring = [(each, since) for each, since in self._retiring if each is not old]
        await old.unload()

    def _refuse(self, version: str, error: Exception) -> None:
        assert self._current is not None
        self._note = f"Serving {self._current.opened.id[:12]}; the version {version} was not loaded: {error}"
        _logger.warning("%s", self._note)

    async def _retire_idle(self) -> None:
        now = self._clock()
        done = [old for old, since in self._retiring if now >= since and old.is_idle]
        self._retiring = [(old, since) for old, since in self._retiring if old not in done]
        for old in done:
            self._forget(old)
            await old.close()

    def _forget(self, gone: Resident) -> None:
        """Forget how to talk to a version, unless the same one is served: it may have been activated again."""
        served = (self._current, *(old for old, _ in self._retiring))
        if not any(each is not None and each is not gone and each.digest == gone.digest for each in served):
            self._models.drop(gone.digest)

    async def _unload_unused(self) -> None:
        current = self._current
        assert current is not None
        if not current.is_idle:
            current.busy_at = self._clock()
        elif current.is_loaded:
            why = self._reason_to_unload(self._clock() - current.busy_at)
            if why is not None:
                await current.unload(f"Unloaded {why}; the next request loads the model again.")

    def _reason_to_unload(self, idle_s: float) -> str | None:
        policy = self._policy
        if policy.keep_alive_s is not None and idle_s >= policy.keep_alive_s:
            return f"after {policy.keep_alive_s:g} s without a request"
        if policy.unload_below_bytes is None or idle_s < policy.grace_s:
            return None
        available = self._available()
        return "since memory is short" if available is not None and available < policy.unload_below_bytes else None

    async def _open(self, chat: ChatModel | None = None) -> Resident:
        opened: OpenedVersion = await asyncio.to_thread(open_version, self._settings, chat)
        return Resident(opened, self._settings, build=self._build, available=self._available, clock=self._clock)

    async def _load(self, resident: Resident) -> None:
        await resident.load()
        if resident.failure is not None:
            raise resident.failure
        self._models.add(resident.digest, resident.opened.chat)
        await self._tell(resident)

    async def _tell(self, resident: Resident) -> None:
        if self._loaded is not None:
            await asyncio.to_thread(self._loaded, resident.state())
