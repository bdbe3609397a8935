"""`POST /v2/models/{model}[/versions/{version}]/infer`: one request from its bytes to its outputs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from opentelemetry.trace import Span, SpanKind, Tracer
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from inference_protocol import headers
from inference_protocol import telemetry_names as names
from inference_protocol.errors import (
    DeadlineExceeded,
    Draining,
    InternalError,
    Overloaded,
    Unavailable,
)
from inference_protocol.execution import Execution
from inference_protocol.open_inference.call import TensorCall
from inference_protocol.open_inference.infer_answer import BINARY_TYPE, JSON_TYPE, InferAnswer, write_answer
from inference_protocol.open_inference.infer_request import json_length, parse_infer
from inference_protocol.request import InferenceRequest, Task
from inference_protocol.timings import Timings
from observability import child, server_span
from runtime_server.engine import RUN_FAILED, QueueFull
from runtime_server.latency_budget import latency_budget
from runtime_server.lifecycle import Lifecycle
from runtime_server.tensors.arrays import to_array, to_output
from runtime_server.tensors.batcher import Computed
from runtime_server.tensors.catalog import Catalog
from runtime_server.tensors.checking import check_inputs, wanted_outputs
from runtime_server.tensors.model import Arrays, TensorModel, TensorRunFailed, TensorSpec
from runtime_server.tensors.service import NotLoaded, TensorService
from serving.answers import send_whole
from serving.client_watch import Client, watched_client
from serving.http_request import header, read_body

P = ParamSpec("P")
T = TypeVar("T")

_NS_PER_MS = 1_000_000
_PROVIDER_NAME = "tidegate"
MOST_BODY_BYTES = 64 << 20
_INLINE_BYTES = 16 << 10  # of a body or an answer; larger ones are read and written in a thread


class InferEndpoint:
    """The endpoint, as plain ASGI."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        catalog: Catalog,
        *,
        body_timeout_s: float,
        tracer: Tracer,
        clock_ns: Callable[[], int],
    ) -> None:
        """Wire it.

        Args:
            lifecycle: Lets requests in.
            catalog: The models.
            body_timeout_s: For the whole of a body.
            tracer: Draws the parts of the work.
            clock_ns: Unix nanoseconds.
        """
        self._lifecycle = lifecycle
        self._catalog = catalog
        self._body_timeout_s = body_timeout_s
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
        model, version, service = self._catalog.version(scope["path_params"]["model"], _version(scope))
        raw = await read_body(scope, receive, max_bytes=MOST_BODY_BYTES, timeout_s=self._body_timeout_s)
        with service.used():  # it is not unloaded between the check of what it takes and the run
            async with watched_client(receive) as client:
                size = json_length(header(scope, headers.INFERENCE_JSON_LENGTH), len(raw))
                request = await _maybe_off_loop(len(raw), parse_infer, raw, model.served.id, version, size)
                call = _call(request)
                loaded = await _load(service, deadline)
                rows = check_inputs([each.heading for each in call.inputs], loaded.inputs, service.batching.axes)
                wanted = wanted_outputs(call, loaded.outputs)
                arrays = await _maybe_off_loop(len(raw), _arrays, call)
                began_ns, span = self._clock_ns(), server_span(scope)
                named = [spec.name for spec, _ in wanted]
                computed = await self._compute(service, arrays, named, rows, client, deadline)
                _describe(span, model.served.id, computed)
                self._draw(span, computed.moments.timings, began_ns)
                size = sum(each.nbytes for each in computed.arrays.values())
                answer = await _maybe_off_loop(size, _written, model.served.id, version, call, wanted, computed)
                await _send(send, answer, computed.execution)

    async def _compute(  # what a computation is made of
        self,
        service: TensorService,
        arrays: Arrays,
        outputs: Sequence[str],
        rows: int,
        client: Client,
        deadline: float | None,
    ) -> Computed:
        with self._lifecycle.admitted() as admission:
            work = asyncio.create_task(service.compute(arrays, outputs, rows))
            admission.hold(work)
            client.when_gone(work.cancel)
            try:
                async with asyncio.timeout_at(deadline):
                    return await work
            except TimeoutError:
                raise DeadlineExceeded("The budget ran out before the outputs were computed.") from None
            except QueueFull:
                raise Overloaded("Every place in the queue is taken; try again.") from None
            except TensorRunFailed:
                raise InternalError(RUN_FAILED) from None
            except asyncio.CancelledError:
                if client.gone:
                    raise ClientDisconnect from None
                if work.cancelled() and not _is_cancelled():
                    raise Draining("The runtime shut down before the outputs were computed.") from None
                raise

    def _draw(self, span: Span, timings: Timings, began_ns: int) -> None:
        """Draw `queue` and `infer` as children, one after the other."""
        if not span.is_recording():
            return
        span.set_attributes({names.QUEUE_MS: timings.queue_ms, names.PREFILL_MS: timings.prefill_ms})
        start_ns = began_ns
        for name, length_ms in (("queue", timings.queue_ms), ("infer", timings.prefill_ms)):
            end_ns = start_ns + int(length_ms * _NS_PER_MS)
            child(self._tracer, span, name, SpanKind.INTERNAL, start_ns).end(end_ns)
            start_ns = end_ns


async def _maybe_off_loop(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    if size <= _INLINE_BYTES:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


async def _load(service: TensorService, deadline: float | None) -> TensorModel:
    try:
        async with asyncio.timeout_at(deadline):
            return await service.loaded()
    except TimeoutError:
        raise DeadlineExceeded("The budget ran out before the model was loaded.") from None
    except NotLoaded as error:
        raise Unavailable(f"The model cannot be loaded: {error}") from None


async def _send(send: Send, answer: InferAnswer, execution: Execution) -> None:
    fields = {headers.PROVIDER: execution.header, "content-type": JSON_TYPE}
    if answer.json_bytes is not None:
        fields |= {"content-type": BINARY_TYPE, headers.INFERENCE_JSON_LENGTH: str(answer.json_bytes)}
    await send_whole(send, 200, answer.body, fields)


def _version(scope: Scope) -> str | None:
    version: str | None = scope["path_params"].get("version")
    return version


def _call(request: InferenceRequest) -> TensorCall:
    assert request.tensors is not None, "it is a request for tensors"
    return request.tensors


def _arrays(call: TensorCall) -> Arrays:
    return {each.heading.name: to_array(each) for each in call.inputs}


def _written(
    model: str, version: str, call: TensorCall, wanted: Sequence[tuple[TensorSpec, bool]], computed: Computed
) -> InferAnswer:
    outputs = [
        to_output(spec.name, spec.datatype, computed.arrays[spec.name], binary=binary) for spec, binary in wanted
    ]
    return write_answer(model, version, call.id, outputs, {"timings": computed.moments.timings.to_wire()})


def _is_cancelled() -> bool:
    here = asyncio.current_task()
    return here is not None and here.cancelling() > 0


def _describe(span: Span, model: str, computed: Computed) -> None:
    span.set_attributes(
        {
            names.GEN_AI_OPERATION_NAME: names.OPERATIONS[Task.TENSOR],
            names.GEN_AI_PROVIDER_NAME: _PROVIDER_NAME,
            names.GEN_AI_REQUEST_MODEL: model,
            **computed.execution.attributes,
            names.BATCH: computed.batch_rows,
        }
    )
