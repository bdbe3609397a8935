"""A decoder of transformers that answers one request at a time. Importing this module imports torch, for seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, DynamicCache, GenerationConfig, LogitsProcessorList, StoppingCriteriaList
from transformers.utils import logging as transformers_logging

from cloud_runtime.engines.request import Request
from runtime_server.engine import NOT_FINITE, FinishReason, GenerationJob
from runtime_server.speed_meter import SpeedMeter

# Prompt tokens read in one step: nothing can be cancelled within one.
_CHUNK = 128


class GenerationFailed(Exception):
    """The model could not be run on a request, or computed what no token can be chosen from."""


class CausalModel:
    """The weights, on a GPU where there is one. Every method is for one thread only, and so is torch's seed."""

    def __init__(self, folder: Path, *, threads: int, clock: Callable[[], float]) -> None:
        """Load a Hugging Face folder, in float32.

        Args:
            folder: Holds `config.json` and safetensors; code in it is never run.
            threads: Of one operation on the CPU.
            clock: Seconds, the same that deadlines are told in.

        Raises:
            OSError: A file is missing.
            ValueError: The architecture is not one that transformers knows.
        """
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        torch.set_num_threads(threads)
        self._clock = clock
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, use_safetensors=True
        )
        self._model = model.to(self._device).eval()
        # A request's parameters are all there is: a folder's own defaults would change the answer unseen.
        self._model.generation_config = GenerationConfig()

    @property
    def device(self) -> str:
        """`cpu` or `cuda`."""
        return str(self._device.type)

    def answer(self, request: Request, speed: SpeedMeter, say: Callable[[int], None]) -> FinishReason:
        """Generate until something ends it, and say what.

        A seed repeats an answer, since nothing else draws from torch's one generator meanwhile.

        Args:
            request: Its `cancelled` is looked at between steps; its moments and `unread` are kept current.
            speed: Where the steps' durations go.
            say: Called with each token of the answer as it comes.

        Raises:
            GenerationFailed: The model could not be run.
        """
        seed = request.job.sampling.seed
        if seed is None:
            torch.seed()
        else:
            torch.manual_seed(seed)
        try:
            with torch.inference_mode():
                return self._answer(request, speed, say)
        except RuntimeError as error:  # torch's own class, also for memory that ran out
            raise GenerationFailed(str(error)) from error

    def _answer(self, request: Request, speed: SpeedMeter, say: Callable[[int], None]) -> FinishReason:
        job = request.job
        tokens = torch.tensor([job.prompt], device=self._device)
        cache = DynamicCache(config=self._model.config)
        if not self._read(request, tokens[:, :-1], cache, speed):
            return FinishReason.CANCELLED if request.cancelled.is_set() else FinishReason.LENGTH
        progress = _Progress(request, speed, say, self._clock)
        self._model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            cache=cache,
            generation_config=_generation_config(job),
            logits_processor=LogitsProcessorList([_require_finite]),
            stopping_criteria=StoppingCriteriaList([progress.must_stop]),
            streamer=progress,
        )
        return progress.finish

    def _read(self, request: Request, tokens: Any, cache: Any, speed: SpeedMeter) -> bool:
        """Read all of the prompt but its last token, which `generate` begins with; say whether that came to its end."""
        for chunk in tokens.split(_CHUNK, dim=1):
            began = self._clock()
            if request.cancelled.is_set() or request.job.is_late(began):
                return False
            length = chunk.shape[1]
            if length == 0:
                break
            self._model(input_ids=chunk, cache=cache, use_cache=True, logits_to_keep=1)
            request.unread -= length
            if 2 * length > _CHUNK:
                speed.add_prefill(length, self._clock() - began)
        return True


class _Progress:
    """Stands in `generate` as its streamer and its stopping criterion: what one step made, and whether to take another.

    `generate` asks the criterion first, with the new token already in its sequence, and then gives it to the streamer.
    """

    def __init__(
        self, request: Request, speed: SpeedMeter, say: Callable[[int], None], clock: Callable[[], float]
    ) -> None:
        self._request = request
        self._speed = speed
        self._say = say
        self._clock = clock
        self._step_began = clock()
        self._prompt_given = False
        self.finish = FinishReason.LENGTH

    def must_stop(self, sequences: Any, scores: Any, **_: Any) -> Any:
        """Say whether this token is the last; one that would only come after the deadline is not begun."""
        next_token_at = self._clock() + self._speed.decode_s(1)
        stop = self._request.cancelled.is_set() or self._request.job.is_late(next_token_at)
        return torch.full((1,), stop, device=sequences.device)

    def put(self, tokens: Any) -> None:
        """Take the prompt, and then one new token after the other."""
        if not self._prompt_given:
            self._prompt_given = True
            return
        now = self._clock()
        if self._request.moments.prefilled is None:
            self._request.moments.prefilled = now
            self._request.unread = 0
        else:
            self._speed.add_decode(1, now - self._step_began)
        self._step_began = now
        token = int(tokens)
        if self._request.cancelled.is_set():
            self.finish = FinishReason.CANCELLED
        elif token in self._request.job.stop_tokens:
            self.finish = FinishReason.STOP
        else:
            self._say(token)

    def end(self) -> None:
        """Nothing is held back that would have to be flushed."""


def _generation_config(job: GenerationJob) -> Any:
    sampling = job.sampling
    stop_tokens = sorted(job.stop_tokens)
    chosen = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,  # 0 keeps all; left out, transformers would keep 50
    }
    return GenerationConfig(
        max_new_tokens=job.max_tokens,
        do_sample=not sampling.is_greedy,
        eos_token_id=stop_tokens or None,
        pad_token_id=stop_tokens[0] if stop_tokens else 0,  # never used with one row, and missed if not named
        **({} if sampling.is_greedy else chosen),
    )


def _require_finite(sequences: Any, logits: Any) -> Any:
    """Let only logits pass that a token can be chosen from: the likeliest of NaNs would be token 0.

    Raises:
        GenerationFailed: The largest is not finite.
    """
    if not torch.isfinite(logits.max()):
        raise GenerationFailed(NOT_FINITE)
    return logits
