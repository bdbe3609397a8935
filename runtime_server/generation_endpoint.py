"""An endpoint that generates: one request from its bytes to its last token, and no longer than its client stays."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry.trace import Tracer
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from inference_protocol import headers
from inference_protocol.errors import Draining, InvalidField, UnknownModel
from inference_protocol.request import InferenceRequest
from inference_protocol.runtime_state import ServedModel
from observability import server_span
from runtime_server import generation_job, generation_spans
from runtime_server.answer import Answer, GenerationCancelled
from runtime_server.bounded_jinja import TemplateTooSlow
from runtime_server.chat_model import ChatModel
from runtime_server.chat_models import ChatModels
from runtime_server.chat_template import LONGEST_S
from runtime_server.choices import Choices
from runtime_server.engine import GenerationJob
from runtime_server.latency_budget import LatencyBudget, latency_budget
from runtime_server.lifecycle import Admission, Lifecycle
from runtime_server.openai.envelope import Envelope
from runtime_server.reply import Reply
from runtime_server.request_boundary import REQUEST_ID_KEY
from runtime_server.task import Plan, Task
from runtime_server.text_stream import TextStream
from serving.client_watch import watched_client
from serving.http_request import header, read_body

# What a template may take of the event loop; one that needs longer begins again in a thread.
_LONGEST_ON_LOOP_S = 0.02


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What one request may take.

    Attributes:
        body_bytes: Largest body.
        body_timeout_s: Longest time for a body to arrive.
        default_max_tokens: Output cap of a chat whose request names none.
        inline_body_bytes: A larger body is templated and encoded in a thread: at 0.4 ms a KB it would hold up others.
    """

    body_bytes: int = 8 << 20
    body_timeout_s: float = 30.0
    default_max_tokens: int = 512
    inline_body_bytes: int = 16 << 10


class GenerationEndpoint:
    """The endpoint of one task, as plain ASGI."""

    def __init__(
        self,
        task: Task,
        lifecycle: Lifecycle,
        models: ChatModels,
        limits: RequestLimits,
        *,
        tracer: Tracer,
        clock_ns: Callable[[], int],
    ) -> None:
        """Wire it.

        Args:
            task: What is asked for, and how it is answered.
            lifecycle: Owner of the engine.
            models: How to talk to whichever version is served.
            limits: Of each request.
            tracer: Draws the parts of a generation.
            clock_ns: Unix nanoseconds.
        """
        self._task = task
        self._lifecycle = lifecycle
        self._models = models
        self._limits = limits
        self._tracer = tracer
        self._clock_ns = clock_ns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        Raises:
            TidegateError: It cannot be answered; nothing of an answer has been sent, or a part of a stream.
            ClientDisconnect: The client hung up; its generations have ended.
        """
        arrived_ns = self._clock_ns()
        budget = latency_budget(scope, asyncio.get_running_loop().time())
        state = self._lifecycle.refuse_unless_ready()
        raw = await read_body(scope, receive, max_bytes=self._limits.body_bytes, timeout_s=self._limits.body_timeout_s)
        request = self._task.parse(raw)
        async with watched_client(receive) as client:
            served = state.models[0]
            model = self._models.of(served.digest)
            plan = await self._plan(request, model, served)
            may_be_kept = header(scope, headers.KEEP) == "prefix"
            jobs = await self._jobs(request, plan, model, served, budget, scope[REQUEST_ID_KEY], may_be_kept)
            if client.gone:
                raise ClientDisconnect
            span = server_span(scope)
            generation_spans.describe_request(span, request, jobs, execution_provider=state.provider)
            with self._lifecycle.admitted() as admission:
                client.when_gone(admission.cancel)
                deadline = budget.deadline if jobs[0].max_tokens else None
                begin = _Beginning(admission, model, request, deadline, state.slots)
                choices = Choices(jobs, begin, per_prompt=request.needs.n, at_once=state.slots)
                writer = plan.writer(self._envelope(request, plan, model, scope[REQUEST_ID_KEY]))
                reply = Reply(choices, writer, send, self._clock_ns, {headers.PROVIDER: state.provider})
                try:
                    await (reply.stream() if request.stream else reply.whole())
                except GenerationCancelled:
                    if client.gone:
                        raise ClientDisconnect from None
                    raise Draining(
                        "The runtime shut down before the answer was complete.",
                        details={"reason": "evicted-shutting-down"},
                    ) from None
                finally:
                    choices.close()
                    generation_spans.draw_parts(self._tracer, span, choices.timings, admitted_ns=reply.admitted_ns)
                    generation_spans.describe_answer(
                        span, choices, arrived_ns=arrived_ns, first_text_ns=reply.first_text_ns
                    )

    async def _plan(self, request: InferenceRequest, model: ChatModel, served: ServedModel) -> Plan:
        if request.model != model.name:
            raise UnknownModel(f"This runtime serves `{model.name}` alone.", param="model")
        generation_job.refuse_unsupported(request.needs, served)
        biased = (token for token, _ in request.sampling.logit_bias)
        generation_job.refuse_unknown_tokens(biased, model.vocabulary, "logit_bias")
        plan = functools.partial(self._task.plan, request, model, served)
        if len(request.raw) <= self._limits.inline_body_bytes:
            with contextlib.suppress(TemplateTooSlow):
                return plan(patience_s=_LONGEST_ON_LOOP_S)
        try:
            return await asyncio.to_thread(plan, patience_s=LONGEST_S)
        except TemplateTooSlow:
            raise InvalidField(
                f"The model's chat template takes longer than {LONGEST_S:g} s for these messages.", param="messages"
            ) from None

    async def _jobs(
        self,
        request: InferenceRequest,
        plan: Plan,
        model: ChatModel,
        served: ServedModel,
        budget: LatencyBudget,
        request_id: str,
        may_be_kept: bool,
    ) -> list[GenerationJob]:
        salt = generation_job.cache_salt(request.tree)
        return [
            GenerationJob(
                request_id=request_id,
                prompt=prompt,
                max_tokens=generation_job.output_tokens(
                    len(prompt),
                    request.output_cap,
                    window=served.window,
                    default=self._limits.default_max_tokens,
                    field=plan.field,
                ),
                sampling=generation_job.sampling_of(request.sampling, index),
                stop_tokens=model.stop_tokens,
                logprobs=request.logprobs,
                prompt_logprobs=plan.prompt_logprobs,
                constraint=None if plan.grammar is None else await model.grammars.constraint(plan.grammar),
                deadline=budget.deadline if budget.truncate else None,
                cache_salt=salt,
                may_be_kept=may_be_kept,
                version=served.digest,
            )
            for prompt in plan.prompts
            for index in range(request.needs.n)
        ]

    def _envelope(self, request: InferenceRequest, plan: Plan, model: ChatModel, request_id: str) -> Envelope:
        return Envelope(
            f"{self._task.id_prefix}-{request_id}",
            model=model.name,
            created=self._clock_ns() // 1_000_000_000,
            prompt_tokens=sum(map(len, plan.prompts)),
            wants_usage=request.wants_usage,
        )


class _Beginning:
    """Has answers generated. Those of the first wave must begin before the caller's deadline."""

    def __init__(
        self, admission: Admission, model: ChatModel, request: InferenceRequest, deadline: float | None, wave: int
    ) -> None:
        self._admission = admission
        self._model = model
        self._request = request
        self._deadline = deadline
        self._left = wave

    def __call__(self, job: GenerationJob) -> Answer:
        self._left -= 1
        text = TextStream(self._model.spelling, self._request.sampling.stop)
        deadline = self._deadline if self._left >= 0 else None
        return Answer(self._admission.begin(job), text, deadline=deadline)
