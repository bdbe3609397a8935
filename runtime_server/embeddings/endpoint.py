"""`POST /v1/embeddings`: one request from its bytes to its vectors, and no longer than its client stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from opentelemetry.trace import Span, SpanKind, Tracer
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from inference_protocol import headers, openai_embedding
from inference_protocol import telemetry_names as names
from inference_protocol.errors import (
    CapabilityUnavailable,
    DeadlineExceeded,
    Draining,
    InternalError,
    Overloaded,
    Unavailable,
    UnknownModel,
)
from inference_protocol.openai_embedding import parse_embedding
from inference_protocol.request import InferenceRequest, Task
from inference_protocol.timings import Timings
from observability import child, server_span
from runtime_server.embeddings.answer import answer_body
from runtime_server.embeddings.model import EmbeddingFailed, Rows
from runtime_server.embeddings.service import Embedded, EmbeddingService, NotLoaded
from runtime_server.engine import RUN_FAILED, QueueFull
from runtime_server.generation_endpoint import RequestLimits
from runtime_server.latency_budget import latency_budget
from runtime_server.lifecycle import Lifecycle
from serving.answers import send_json
from serving.client_watch import Client, watched_client
from serving.http_request import read_body

_NS_PER_MS = 1_000_000
_PROVIDER_NAME = "tidegate"


class EmbeddingsEndpoint:
    """The endpoint, as plain ASGI."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        services: Mapping[str, EmbeddingService],
        limits: RequestLimits,
        *,
        tracer: Tracer,
        clock_ns: Callable[[], int],
    ) -> None:
        """Wire it.

        Args:
            lifecycle: Lets requests in.
            services: By the names that requests ask for.
            limits: Of each request.
            tracer: Draws the parts of the work.
            clock_ns: Unix nanoseconds.
        """
        self._lifecycle = lifecycle
        self._services = services
        self._limits = limits
        self._tracer = tracer
        self._clock_ns = clock_ns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        Raises:
            TidegateError: It cannot be answered; nothing has been sent.
            ClientDisconnect: The client hung up; the work has ended.
        """
        deadline = latency_budget(scope, asyncio.get_running_loop().time()).deadline
        self._lifecycle.refuse_unless_ready()
        raw = await read_body(scope, receive, max_bytes=self._limits.body_bytes, timeout_s=self._limits.body_timeout_s)
        async with watched_client(receive) as client:
            request, service, rows = await self._read(raw)
            span = server_span(scope)
            _describe(span, request, service, rows)
            began_ns = self._clock_ns()
            embedded = await self._embed(service, rows, client, deadline)
            span.set_attributes(embedded.execution.attributes)
            self._draw(span, embedded.timings, began_ns)
            encoding, tokens = openai_embedding.encoding(request.tree), sum(map(len, rows))
            body = await asyncio.to_thread(answer_body, embedded, service.served.id, encoding, tokens)
            await send_json(send, 200, body, {headers.PROVIDER: embedded.execution.header})

    async def _read(self, raw: bytes) -> tuple[InferenceRequest, EmbeddingService, Rows]:
        if len(raw) <= self._limits.inline_body_bytes:
            return self._encoded(raw)
        return await asyncio.to_thread(self._encoded, raw)

    def _encoded(self, raw: bytes) -> tuple[InferenceRequest, EmbeddingService, Rows]:
        request = parse_embedding(raw)
        service = self._services.get(request.model)
        if service is None:
            there_are = ", ".join(f"`{name}`" for name in self._services) or "none"
            raise UnknownModel(f"No such model embeds here. There are: {there_are}.", param="model")
        own, wanted = service.served.dimensions, openai_embedding.dimensions(request.tree)
        if wanted not in (None, own):
            raise CapabilityUnavailable(
                f"`{service.served.id}` makes vectors of {own} dimensions and no others: leave `dimensions` out.",
                param="dimensions",
            )
        truncate = openai_embedding.truncates_to(request.tree)
        return request, service, service.encoder.encode(openai_embedding.inputs(request.tree), truncate=truncate)

    async def _embed(self, service: EmbeddingService, rows: Rows, client: Client, deadline: float | None) -> Embedded:
        with self._lifecycle.admitted() as admission:
            work = asyncio.create_task(service.embed(rows))
            admission.hold(work)
            client.when_gone(work.cancel)
            try:
                async with asyncio.timeout_at(deadline):
                    return await work
            except TimeoutError:
                raise DeadlineExceeded("The budget ran out before the vectors were computed.") from None
            except QueueFull:
                raise Overloaded("Every place in the queue is taken; try again.") from None
            except NotLoaded as error:
                raise Unavailable(f"The model cannot be loaded: {error}") from None
            except EmbeddingFailed:
                raise InternalError(RUN_FAILED) from None
            except asyncio.CancelledError:
                if client.gone:
                    raise ClientDisconnect from None
                if work.cancelled() and not _is_cancelled():
                    raise Draining("The runtime shut down before the vectors were computed.") from None
                raise

    def _draw(self, span: Span, timings: Timings, began_ns: int) -> None:
        """Draw `queue` and `embed` as children, one after the other."""
        if not span.is_recording():
            return
        span.set_attributes({names.QUEUE_MS: timings.queue_ms, names.PREFILL_MS: timings.prefill_ms})
        start_ns = began_ns
        for name, length_ms in (("queue", timings.queue_ms), ("embed", timings.prefill_ms)):
            end_ns = start_ns + int(length_ms * _NS_PER_MS)
            child(self._tracer, span, name, SpanKind.INTERNAL, start_ns).end(end_ns)
            start_ns = end_ns


def _is_cancelled() -> bool:
    here = asyncio.current_task()
    return here is not None and here.cancelling() > 0


def _describe(span: Span, request: InferenceRequest, service: EmbeddingService, rows: Rows) -> None:
    span.set_attributes(
        {
            names.GEN_AI_OPERATION_NAME: names.OPERATIONS[Task.EMBEDDING],
            names.GEN_AI_PROVIDER_NAME: _PROVIDER_NAME,
            names.GEN_AI_REQUEST_MODEL: request.model,
            names.GEN_AI_REQUEST_ENCODING_FORMATS: (openai_embedding.encoding(request.tree).value,),
            names.GEN_AI_EMBEDDINGS_DIMENSION_COUNT: service.served.dimensions or 0,
            names.GEN_AI_INPUT_TOKENS: sum(map(len, rows)),
        }
    )
