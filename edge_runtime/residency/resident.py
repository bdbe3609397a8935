"""One version of a model: held on the disk for as long as it may be asked, in memory while it is wanted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from edge_runtime.generation.genai_config import read_genai_config
from edge_runtime.generation.loading import EngineSettings
from edge_runtime.residency.memory import MemoryNeed, TooLittleMemory, give_back_freed, memory_need
from edge_runtime.residency.pending import PendingGeneration
from inference_protocol.engine_steps import EngineStep
from inference_protocol.runtime_state import RuntimeState, RuntimeStatus, ServedModel
from runtime_server import model_manifest
from runtime_server.chat_model import ChatModel, load_chat_model
from runtime_server.engine import Engine, Generation, GenerationJob, QueueFull
from runtime_server.model_lease import ModelLease, take_lease

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedVersion:
    """What is known of a version before it is loaded.

    Attributes:
        lease: Keeps its files from being removed.
        id: sha256 of its manifest.
        served: What is told of it.
        need: What it will take in memory.
        chat: How to talk to it.
    """

    lease: ModelLease
    id: str
    served: ServedModel
    need: MemoryNeed
    chat: ChatModel


def open_version(settings: EngineSettings, chat: ChatModel | None = None) -> OpenedVersion:
    """Look at the version that the model's folder stands for now. Blocks.

    Args:
        settings: Of its engine.
        chat: How to talk to a version, which need not be read again where it is this one.

    Raises:
        ModelMissing: There is none.
        ModelDamaged: Its manifest cannot be read.
        ModelUnsupported: It does not describe a decoder.
        ModelFolderUnusable: Its tokenizer or template cannot be used.
    """
    lease = take_lease(settings.folder)
    try:
        manifest = model_manifest.read_manifest(lease.folder)
        window = min(read_genai_config(lease.folder).context_length, settings.context)
        return OpenedVersion(
            lease=lease,
            id=model_manifest.manifest_id(lease.folder),
            served=manifest.served_as(settings.model_name, window),
            need=memory_need(lease.folder, slots=settings.slots, context=settings.context),
            chat=chat
            if chat is not None and chat.folder == lease.folder
            else load_chat_model(lease.folder, settings.model_name),
        )
    except BaseException:
        lease.release()
        raise


class Resident:
    """A version and, while it is in memory, its engine. It belongs to the event loop.

    Attributes:
        opened: What was known before.
        failure: Why it could not be loaded, the last time that was tried.
    """

    def __init__(
        self,
        opened: OpenedVersion,
        settings: EngineSettings,
        *,
        build: Callable[[EngineSettings], Engine],
        available: Callable[[], int | None],
        clock: Callable[[], float],
    ) -> None:
        """Own a version's lease; nothing is loaded yet.

        Args:
            opened: The version.
            settings: Of its engine, but for the folder.
            build: Makes an engine.
            available: Bytes that may be taken.
            clock: Seconds that agree with the event loop's.
        """
        self.opened = opened
        self.failure: Exception | None = None
        self._settings = replace(settings, folder=opened.lease.folder)
        self._build = build
        self._available = available
        self._clock = clock
        self._engine: Engine | None = None
        self._loading: asyncio.Task[Callable[[GenerationJob], Generation] | None] | None = None
        self._changing = asyncio.Lock()
        self._pending = 0
        self._unloaded: str | None = None
        self._told = RuntimeState(
            status=RuntimeStatus.READY, slots=settings.slots, waiting_limit=settings.waiting_limit
        )
        self.busy_at = clock()

    @property
    def digest(self) -> str:
        """What its prompts are made for."""
        return self.opened.served.digest

    @property
    def is_loaded(self) -> bool:
        """Whether it is in memory."""
        return self._engine is not None

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for it or is being answered."""
        if self._pending or self._loading is not None:
            return False
        state = self.state()
        return not (state.running or state.waiting)

    @property
    def held_bytes(self) -> int:
        """What unloading it would give back."""
        return self.opened.need.total if self.is_loaded else 0

    def steps(self) -> Sequence[EngineStep]:
        """Return what its engine did lately; nothing while it is not loaded."""
        return () if self._engine is None else self._engine.steps()

    def state(self) -> RuntimeState:
        """Return its engine's state; while it is not loaded, what was last known of its speed."""
        if self._engine is not None:
            self._told = self._engine.state()
            return self._told.model_copy(update={"waiting": self._told.waiting + self._pending})
        detail = self._unloaded if self.failure is None else f"The model could not be loaded: {self.failure}"
        return self._told.model_copy(
            update={
                "status": RuntimeStatus.READY,
                "running": 0,
                "waiting": self._pending,
                "prefill_tokens_queued": 0,
                "models": self._told.models or (self.opened.served,),
                "detail": detail,
            }
        )

    def load(self, after: Awaitable[None] | None = None) -> asyncio.Task[Callable[[GenerationJob], Generation] | None]:
        """Load it, unless that is under way; the task gives the way to submit a job, or `None` where it failed.

        Args:
            after: What must be over first.
        """
        if self._loading is None:
            self._loading = asyncio.create_task(self._load(after))
        return self._loading

    def submit(self, job: GenerationJob) -> Generation:
        """Admit a request; where the version is not in memory, that begins to load it.

        Raises:
            QueueFull: Every slot and every place in the queue is taken.
            NotReady: The engine failed or stops.
        """
        self.busy_at = self._clock()
        if self._engine is not None:
            return self._engine.submit(job)
        if self._pending >= self._settings.slots + self._settings.waiting_limit:
            raise QueueFull
        self._pending += 1
        return PendingGeneration(job, self.load(), left=self._leave, clock=self._clock)

    async def unload(self, why: str | None = None) -> None:
        """Take it out of memory; the lease stays. `why` is told as long as nobody asks for it."""
        async with self._changing:
            if self._engine is not None:
                self.state()  # keeps its speed
                engine, self._engine = self._engine, None
                self._unloaded = why
                await engine.stop()
                await asyncio.to_thread(give_back_freed)

    async def close(self) -> None:
        """Take it out of memory for good."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
        await self.unload()
        self.opened.lease.release()

    def _leave(self) -> None:
        self._pending -= 1
        self.busy_at = self._clock()

    async def _load(self, after: Awaitable[None] | None) -> Callable[[GenerationJob], Generation] | None:
        """Supervise loading: whatever goes wrong is kept for whoever asks."""
        try:
            if after is not None:
                await after
            async with self._changing:
                if self._engine is None:
                    self._require_memory()
                    self._engine = await self._start()
                    await asyncio.to_thread(give_back_freed)
            self.failure = None
            return self._engine.submit
        except Exception as error:
            _logger.warning("The version %s could not be loaded: %s", self.opened.id[:12], error)
            self.failure = error
            return None
        finally:
            self._loading = None

    async def _start(self) -> Engine:
        engine = self._build(self._settings)
        try:
            await engine.start()
        except BaseException:  # cancelled too: what it has loaded by then would stay
            await engine.stop()
            raise
        return engine

    def _require_memory(self) -> None:
        available = self._available()
        if available is not None and self.opened.need.total > available:
            raise TooLittleMemory(self.opened.need, available)
