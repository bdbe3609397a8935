"""`POST /v1/chat/completions`: one request from its bytes to its last token, and no longer than its client stays."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from opentelemetry.trace import Tracer
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from inference_protocol.errors import Draining, UnknownModel
from inference_protocol.openai_chat import parse_chat
from inference_protocol.request import InferenceRequest
from inference_protocol.runtime_state import ServedModel
from observability import server_span
from runtime_server import chat_job, generation_spans
from runtime_server.answer import Answer, GenerationCancelled, NothingToGenerate
from runtime_server.chat_model import ChatModel
from runtime_server.chat_models import ChatModels
from runtime_server.engine import Generation, GenerationJob
from runtime_server.latency_budget import LatencyBudget, latency_budget
from runtime_server.lifecycle import Lifecycle
from runtime_server.openai_answer import ChatAnswerWriter
from runtime_server.request_boundary import REQUEST_ID_KEY
from runtime_server.text_stream import TextStream
from serving.answers import STREAM_HEADERS, send_head, send_json
from serving.client_watch import watched_client
from serving.http_request import read_body


@dataclass(frozen=True, slots=True)
class ChatLimits:
    """What one request may take.

    Attributes:
        body_bytes: Largest body.
        body_timeout_s: Longest time for a body to arrive.
        default_max_tokens: Output cap where the request names none.
        inline_body_bytes: A larger body is templated and encoded in a thread: at 0.4 ms a KB it would hold up others.
    """

    body_bytes: int = 8 << 20
    body_timeout_s: float = 30.0
    default_max_tokens: int = 512
    inline_body_bytes: int = 16 << 10


class ChatEndpoint:
    """The endpoint, as plain ASGI."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        models: ChatModels,
        limits: ChatLimits,
        *,
        tracer: Tracer,
        clock_ns: Callable[[], int],
    ) -> None:
        """Wire it.

        Args:
            lifecycle: Owner of the engine.
            models: How to talk to whichever version is served.
            limits: Of each request.
            tracer: Draws the parts of a generation.
            clock_ns: Unix nanoseconds.
        """
        self._lifecycle = lifecycle
        self._models = models
        self._limits = limits
        self._tracer = tracer
        self._clock_ns = clock_ns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        Raises:
            TidegateError: It cannot be answered; nothing of an answer has been sent, or a part of a stream.
            ClientDisconnect: The client hung up; its generation has ended.
        """
        arrived_ns = self._clock_ns()
        budget = latency_budget(scope, asyncio.get_running_loop().time())
        state = self._lifecycle.refuse_unless_ready()
        raw = await read_body(scope, receive, max_bytes=self._limits.body_bytes, timeout_s=self._limits.body_timeout_s)
        request = parse_chat(raw)
        async with watched_client(receive) as client:
            served = state.models[0]
            model = self._models.of(served.digest)
            job = await self._job(request, scope[REQUEST_ID_KEY], budget, served, model)
            if client.gone:
                raise ClientDisconnect
            span = server_span(scope)
            generation_spans.describe_request(span, request, job, execution_provider=state.provider)
            with self._generation(job) as generation:
                client.when_gone(generation.cancel)
                text = TextStream(model.spelling, request.sampling.stop)
                answer = Answer(generation, text, deadline=budget.deadline if job.max_tokens else None)
                reply = _Reply(answer, self._writer(request, job, model), send, self._clock_ns)
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
                    generation_spans.draw_parts(self._tracer, span, answer, admitted_ns=reply.admitted_ns)
                    generation_spans.describe_answer(
                        span, answer, arrived_ns=arrived_ns, first_text_ns=reply.first_text_ns
                    )

    async def _job(
        self,
        request: InferenceRequest,
        request_id: str,
        budget: LatencyBudget,
        served: ServedModel,
        model: ChatModel,
    ) -> GenerationJob:
        if request.model != model.name:
            raise UnknownModel(f"This runtime serves `{model.name}` alone.", param="model")
        chat_job.refuse_unsupported(request.needs, served)
        encode, messages = model.prompts.encode, request.tree["messages"]
        if len(request.raw) > self._limits.inline_body_bytes:
            prompt = await asyncio.to_thread(encode, messages)
        else:
            prompt = encode(messages)
        return GenerationJob(
            request_id=request_id,
            prompt=prompt,
            max_tokens=chat_job.output_tokens(
                len(prompt),
                request.output_cap,
                window=served.window,
                default=self._limits.default_max_tokens,
            ),
            sampling=request.sampling,
            stop_tokens=model.stop_tokens,
            deadline=budget.deadline if budget.truncate else None,
            cache_salt=chat_job.cache_salt(request.tree),
            version=served.digest,
        )

    @contextlib.contextmanager
    def _generation(self, job: GenerationJob) -> Iterator[Generation]:
        if job.max_tokens == 0:
            yield NothingToGenerate()
            return
        with self._lifecycle.admitted(job) as generation:
            yield generation

    def _writer(self, request: InferenceRequest, job: GenerationJob, model: ChatModel) -> ChatAnswerWriter:
        return ChatAnswerWriter(
            f"chatcmpl-{job.request_id}",
            model=model.name,
            created=self._clock_ns() // 1_000_000_000,
            prompt_tokens=len(job.prompt),
            wants_usage=request.wants_usage,
        )


class _Reply:
    """Sends one answer, streamed or whole."""

    def __init__(self, answer: Answer, writer: ChatAnswerWriter, send: Send, clock_ns: Callable[[], int]) -> None:
        self._answer = answer
        self._writer = writer
        self._send = send
        self._clock_ns = clock_ns
        self.admitted_ns = clock_ns()
        self.first_text_ns: int | None = None

    async def stream(self) -> None:
        """Send text as it comes. The head waits for the first of it, so that until then an error has its own status."""
        started = False
        while self._answer.finish_reason is None:
            text = await self._next_text()
            frames = self._writer.text(text) if text else b""
            done = self._answer.finish_reason is not None
            if done:
                frames += self._writer.end(self._answer)
            if not frames:
                continue
            if not started:
                started = True
                frames = self._writer.role() + frames
                await send_head(self._send, 200, STREAM_HEADERS)
            await self._send({"type": "http.response.body", "body": frames, "more_body": not done})

    async def whole(self) -> None:
        """Send the answer once it is complete."""
        pieces: list[str] = []
        while self._answer.finish_reason is None:
            pieces.append(await self._next_text())
        await send_json(self._send, 200, self._writer.whole(self._answer, "".join(pieces)))

    async def _next_text(self) -> str:
        text = await self._answer.next_text()
        if text and self.first_text_ns is None:
            self.first_text_ns = self._clock_ns()
        return text
