"""From a model folder to a model that answers: verified, loaded, measured. All of it blocks, for seconds."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cloud_runtime.engines.request import Request
from inference_protocol.runtime_state import ServedModel
from inference_protocol.sampling import Sampling
from runtime_server.cpus import usable_cpus
from runtime_server.engine import GenerationJob
from runtime_server.model_admission import admit
from runtime_server.model_lease import ModelLease
from runtime_server.model_manifest import ModelUnsupported
from runtime_server.moments import Moments
from runtime_server.speed_meter import SpeedMeter
from runtime_server.trusted_keys import TrustedKeys

if TYPE_CHECKING:
    from cloud_runtime.engines.causal_model import CausalModel

_PROMPT_TOKENS = 129
_DECODED_TOKENS = 6


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What an operator chooses.

    Attributes:
        folder: The model, in Hugging Face's format, with its manifest.
        model_name: The name it is served under.
        waiting_limit: Requests that may wait while one is answered.
        threads: Threads of one operation on the CPU. `None` takes one fewer than this process may use: OpenMP's
            threads spin for each other, and where the gateway or the edge runtime needs one of their CPUs, they fall
            to a fifth of their speed.
        trusted_keys: One of them must have signed the model; `None` does not look at signatures.
    """

    folder: Path
    model_name: str
    waiting_limit: int = 16
    threads: int | None = None
    trusted_keys: TrustedKeys | None = None


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model, the hold on its folder, what may be told of it, and how fast it is here."""

    lease: ModelLease
    model: CausalModel
    served: ServedModel
    speed: SpeedMeter


def load(settings: EngineSettings, clock: Callable[[], float]) -> LoadedModel:
    """Load the model. Only the thread that calls this may use it.

    Raises:
        ModelMissing: The folder holds no complete model.
        ModelDamaged: A file is not what the manifest says.
        ModelUnsupported: It is not one that transformers can load and run.
        Untrusted: No trusted key signed it.
    """
    # torch takes seconds to import, and a process that shows its help, or is refused its port, has no use for it.
    from cloud_runtime.engines.causal_model import CausalModel, GenerationFailed  # noqa: PLC0415  # see above

    admitted = admit(settings.folder, settings.trusted_keys)
    folder, manifest = admitted.folder, admitted.manifest
    if manifest.format != "huggingface":
        raise ModelUnsupported(f"{folder} is of the format {manifest.format}; this engine runs huggingface folders.")
    threads = settings.threads or max(1, usable_cpus() - 1)
    try:
        model = CausalModel(folder, threads=threads, clock=clock)
        speed = _measure(model, clock)
    except (OSError, ValueError, GenerationFailed) as error:
        raise ModelUnsupported(f"The model in {folder} cannot be loaded or run: {error}") from error
    return LoadedModel(admitted.lease, model, manifest.served_as(settings.model_name, manifest.window), speed)


def _measure(model: CausalModel, clock: Callable[[], float]) -> SpeedMeter:
    """Answer a made-up prompt twice: the first time pays for allocations, the second says how fast it is."""
    _times_of_answer(model, clock)
    began, first, *later = _times_of_answer(model, clock)
    # The fastest: at a start the machine is often busy with other things that start too.
    decode_s = min(after - before for before, after in itertools.pairwise([first, *later]))
    prefill_s = max(first - began - decode_s, 1e-6)  # the last token of a prompt is read alone, like one of an answer
    return SpeedMeter(prefill_tokens_per_s=(_PROMPT_TOKENS - 1) / prefill_s, ms_per_token={1: decode_s * 1000})


def _times_of_answer(model: CausalModel, clock: Callable[[], float]) -> list[float]:
    """Return when an answer began, and when each of its tokens came."""
    prompt, greedy = (0,) * _PROMPT_TOKENS, Sampling(temperature=0.0)
    job = GenerationJob("warm-up", prompt, _DECODED_TOKENS, greedy, stop_tokens=frozenset())
    times = [clock()]
    nothing_known = SpeedMeter(prefill_tokens_per_s=1.0, ms_per_token={})
    model.answer(Request(job, Moments(times[0])), nothing_known, lambda _: times.append(clock()))
    return times
