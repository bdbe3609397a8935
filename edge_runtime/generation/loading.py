"""From a model folder to a scheduler that can run: verified, loaded, measured. All of it blocks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.generation.drafting import Drafter
from edge_runtime.generation.errors import GraphRunFailed
from edge_runtime.generation.genai_config import read_genai_config
from edge_runtime.generation.graph import DecoderGraph
from edge_runtime.generation.interruption import Interruption
from edge_runtime.generation.occupancy import Occupancy
from edge_runtime.generation.prefix_store import BLOCK, BlockShape, PrefixStore
from edge_runtime.generation.scheduler import Scheduler
from edge_runtime.generation.slots import Reuse
from edge_runtime.generation.warm_up import warm_up, worthwhile_slots
from inference_protocol.runtime_state import ServedModel
from runtime_server.cpus import usable_cpus
from runtime_server.model_admission import AdmittedModel, admit
from runtime_server.model_lease import ModelLease
from runtime_server.model_manifest import ModelUnsupported
from runtime_server.speed_meter import SpeedMeter
from runtime_server.trusted_keys import TrustedKeys

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What an operator chooses.

    Attributes:
        folder: The model, in onnxruntime-genai's format, with its manifest.
        model_name: The name it answers to.
        slots: Requests that run at once, or the most of them.
        measures_slots: Whether fewer run at once where more give hardly more tokens a second.
        context: Most tokens of prompt and answer in one slot; the model's own window caps it.
        waiting_limit: Requests that may wait for a slot.
        threads: Threads of one run; `None` takes the CPUs this process may use.
        kept_mib: Most memory for keys and values of prompts that have been answered, for those that begin alike.
        prefix_folder: Where keys and values are kept on the disk; `None` keeps none.
        prefix_mib: Most of them.
        drafts: Whether to check drafts for a request that runs alone; `None` does where that changes no answer.
        trusted_keys: One of them must have signed the model; `None` does not look at signatures.
    """

    folder: Path
    model_name: str
    slots: int = 4
    measures_slots: bool = False
    context: int = 2048
    waiting_limit: int = 16
    threads: int | None = None
    trusted_keys: TrustedKeys | None = None
    kept_mib: int = 64
    prefix_folder: Path | None = None
    prefix_mib: int = 512
    drafts: bool | None = None


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """What may be told of a loaded model, and the hold on its folder; the session itself is not in it."""

    lease: ModelLease
    served: ServedModel
    provider: str
    speed: SpeedMeter


def load(
    settings: EngineSettings, occupancy: Occupancy, clock: Callable[[], float], interruption: Interruption
) -> tuple[LoadedModel, Scheduler]:
    """Load the model. Only the thread that calls this may use the scheduler, which that thread closes.

    Args:
        settings: What an operator chooses.
        occupancy: Where requests are counted.
        clock: Seconds.
        interruption: Ends runs from another thread.

    Raises:
        ModelMissing: The folder holds no complete model.
        ModelDamaged: A file is not what the manifest says.
        ModelUnsupported: The graph is not one that can be run here.
        Untrusted: No trusted key signed it.
    """
    admitted = admit(settings.folder, settings.trusted_keys)
    try:
        return _load(admitted, settings, occupancy, clock, interruption)
    except BaseException:
        admitted.lease.release()
        raise


def _load(
    admitted: AdmittedModel,
    settings: EngineSettings,
    occupancy: Occupancy,
    clock: Callable[[], float],
    interruption: Interruption,
) -> tuple[LoadedModel, Scheduler]:
    folder = admitted.folder
    config = read_genai_config(folder)
    window = min(config.context_length, settings.context)
    threads = settings.threads or usable_cpus()
    graph = DecoderGraph(
        folder, config, slots=settings.slots, window=window, threads=threads, interruption=interruption
    )
    try:
        measured = warm_up(graph, window=window, clock=clock)
    except GraphRunFailed as error:
        raise ModelUnsupported(f"The graph in {folder} fails on its first run: {error}") from error
    speed = measured.speed
    if settings.measures_slots:
        graph.slots = worthwhile_slots(speed.ms_per_token)
        occupancy.allow(graph.slots)
    drafts = measured.checks_agree if settings.drafts is None else settings.drafts
    scheduler = Scheduler(
        graph,
        chunk=measured.chunk,
        occupancy=occupancy,
        speed=speed,
        clock=clock,
        reuse=Reuse((settings.kept_mib << 20) * BLOCK // graph.block_shape.nbytes, measured.checks_agree),
        drafter=Drafter() if drafts else None,
        prefixes=_open_prefixes(settings, admitted.manifest.digest, graph.block_shape),
    )
    served = admitted.manifest.served_as(settings.model_name, window, prompt_logprobs=graph.tells_prompt)
    return LoadedModel(admitted.lease, served, graph.provider, speed), scheduler


def _open_prefixes(settings: EngineSettings, digest: str, shape: BlockShape) -> PrefixStore | None:
    folder = settings.prefix_folder
    if folder is None:
        return None
    try:
        return PrefixStore(folder, digest=digest, shape=shape, most_bytes=settings.prefix_mib << 20)
    except OSError as error:  # it only saves time
        _logger.warning("Prefixes are not kept in %s: %s", folder, error.strerror)
        return None
