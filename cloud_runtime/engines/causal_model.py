"""A decoder of transformers that answers one request at a time. Importing this module imports torch, for seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, DynamicCache, GenerationConfig, LogitsProcessorList, StoppingCriteriaList
from transformers.utils import logging as transformers_logging

from cloud_runtime.engines.request import Request
from runtime_server.choosing.logprobs import logprobs_of
from runtime_server.choosing.row import Chosen, NothingAllowed, RowChooser
from runtime_server.choosing.sampler import NonFiniteLogits
from runtime_server.engine import NOT_FINITE, NOTHING_ALLOWED, FinishReason, GenerationJob, TokenEvent
from runtime_server.speed_meter import SpeedMeter
from runtime_server.structure.constraint import Masks

# Prompt tokens read in one step: nothing can be cancelled within one.
_CHUNK = 128


class GenerationFailed(Exception):
    """The model could not be run on a request, or computed what no token can be chosen from."""


class CausalModel:
    """The weights, on a GPU where there is one. Every method is for one thread only."""

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

    def answer(self, request: Request, speed: SpeedMeter, say: Callable[[TokenEvent], None]) -> FinishReason:
        """Generate until something ends it, and say what.

        Args:
            request: Its `cancelled` is looked at between steps; its moments and `unread` are kept current.
            speed: Where the steps' durations go.
            say: Called with the events of the answer as they come, but for the last.

        Raises:
            GenerationFailed: The model could not be run.
        """
        try:
            with torch.inference_mode():
                return self._answer(request, speed, say)
        except RuntimeError as error:  # torch's own class, also for memory that ran out
            raise GenerationFailed(str(error)) from error

    def _answer(self, request: Request, speed: SpeedMeter, say: Callable[[TokenEvent], None]) -> FinishReason:
        job = request.job
        tokens = torch.tensor([job.prompt], device=self._device)
        cache = DynamicCache(config=self._model.config)
        if not self._read(request, tokens, cache, speed, say):
            return FinishReason.CANCELLED if request.cancelled.is_set() else FinishReason.LENGTH
        if job.max_tokens == 0:
            request.unread = 0
            return FinishReason.LENGTH
        choice = _Choice(job)
        progress = _Progress(request, choice, speed, say, self._clock)
        self._model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            cache=cache,
            generation_config=_generation_config(job),
            logits_processor=LogitsProcessorList([choice]),
            stopping_criteria=StoppingCriteriaList([progress.must_stop]),
            streamer=progress,
        )
        return progress.finish

    def _read(
        self, request: Request, tokens: Any, cache: Any, speed: SpeedMeter, say: Callable[[TokenEvent], None]
    ) -> bool:
        """Read all of the prompt but its last token, which `generate` begins with; say whether that came to its end."""
        job = request.job
        for first in range(0, len(job.prompt) - 1, _CHUNK):
            began = self._clock()
            if request.cancelled.is_set() or job.is_late(began):
                return False
            chunk = tokens[:, first : min(first + _CHUNK, len(job.prompt) - 1)]
            length = chunk.shape[1]
            keep = 0 if job.prompt_logprobs else 1  # 0 keeps them all
            found = self._model(input_ids=chunk, cache=cache, use_cache=True, logits_to_keep=keep)
            if job.prompt_logprobs:
                following = job.prompt[first + 1 : first + 1 + length]
                say(TokenEvent(prompt=logprobs_of(_to_numpy(found.logits[0]), following, job.logprobs or 0)))
            request.unread -= length
            if 2 * length > _CHUNK:
                speed.add_prefill(length, self._clock() - began)
        return True


class _Choice:
    """Stands in `generate` as its logits processor: it chooses the token, and leaves `generate` only that one."""

    def __init__(self, job: GenerationJob) -> None:
        self._chooser = RowChooser(job)
        self._masks = Masks()
        self.chosen = Chosen(-1, ())

    def __call__(self, sequences: Any, logits: Any) -> Any:
        """Choose from the logits of the one row.

        Raises:
            GenerationFailed: They are not finite, or the form that the answer must have leaves no token.
        """
        row = _to_numpy(logits[0])
        constraint = self._chooser.constraint
        allowed = None if constraint is None else self._masks.of([constraint], len(row))[0]
        try:
            self.chosen = self._chooser.next(row, allowed)
        except NonFiniteLogits:
            raise GenerationFailed(NOT_FINITE) from None
        except NothingAllowed:
            raise GenerationFailed(NOTHING_ALLOWED) from None
        only = torch.full_like(logits, -torch.inf)
        only[0, self.chosen.token] = 0.0
        return only


class _Progress:
    """Stands in `generate` as its streamer and its stopping criterion: what one step made, and whether to take another.

    `generate` asks the criterion first, with the new token already in its sequence, and then gives it to the streamer.
    """

    def __init__(
        self,
        request: Request,
        choice: _Choice,
        speed: SpeedMeter,
        say: Callable[[TokenEvent], None],
        clock: Callable[[], float],
    ) -> None:
        self._request = request
        self._choice = choice
        self._speed = speed
        self._say = say
        self._clock = clock
        self._step_began = clock()
        self._prompt_given = False
        self.finish = FinishReason.LENGTH

    def must_stop(self, sequences: Any, scores: Any, **_: Any) -> Any:
        """Say whether this token is the last; one that would only come after the deadline is not begun."""
        next_token_at = self._clock() + self._speed.decode_s(1)
        job = self._request.job
        complete = job.constraint is not None and job.constraint.is_complete
        stop = complete or self._request.cancelled.is_set() or job.is_late(next_token_at)
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
        job, (token, logprobs) = self._request.job, self._choice.chosen
        if self._request.cancelled.is_set():
            self.finish = FinishReason.CANCELLED
        elif token in job.stop_tokens:
            self.finish = FinishReason.STOP
        else:
            self._say(TokenEvent((token,), logprobs=logprobs))
            if job.constraint is not None and job.constraint.is_complete:
                self.finish = FinishReason.STOP

    def end(self) -> None:
        """Nothing is held back that would have to be flushed."""


def _generation_config(job: GenerationJob) -> Any:
    stop_tokens = sorted(job.stop_tokens)
    return GenerationConfig(
        max_new_tokens=job.max_tokens,
        do_sample=False,  # of one token, which `_Choice` has chosen
        eos_token_id=stop_tokens or None,
        pad_token_id=stop_tokens[0] if stop_tokens else 0,  # never used with one row, and missed if not named
    )


def _to_numpy(logits: Any) -> Any:
    return logits.float().cpu().numpy()
