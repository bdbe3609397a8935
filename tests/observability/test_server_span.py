import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from opentelemetry import baggage
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import INVALID_SPAN, SpanKind, StatusCode, Tracer, get_current_span
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from observability import ServerSpanMiddleware, child, server_span, traceparent

TRACEPARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE_ID = 0x0AF7651916CD43DD8448EB211C80319C
SPAN_ID = 0xB7AD6B7169203331


def _tracer(exporter: InMemorySpanExporter, ratio: float = 1.0) -> Tracer:
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(ratio)), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test")


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def _answering(status: int = 200, then: Callable[[Scope], Any] = lambda scope: None) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        then(scope)
        await send({"type": "http.response.body", "body": b""})

    return app


async def _ask(
    app: ASGIApp,
    exporter: InMemorySpanExporter,
    *headers: tuple[bytes, bytes],
    path: str = "/v1/models",
    method: str = "GET",
    trust_inbound: bool = False,
    ratio: float = 1.0,
) -> ReadableSpan | None:
    """Send one request through the middleware; return its span if there is one."""
    wrapped = ServerSpanMiddleware(app, _tracer(exporter, ratio), trust_inbound=trust_inbound, quiet_paths={"/livez"})
    scope = {"type": "http", "method": method, "path": path, "scheme": "http", "headers": list(headers)}
    scope |= {"query_string": b"q=secret", "root_path": "", "app": app}

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        pass

    await wrapped(scope, receive, send)
    spans = exporter.get_finished_spans()
    return spans[-1] if spans else None


async def test_a_request_is_one_server_span_named_by_method_and_route(exporter: InMemorySpanExporter) -> None:
    app = FastAPI()

    @app.get("/v2/models/{model}")
    async def model(model: str) -> str:
        return model

    span = await _ask(app, exporter, path="/v2/models/smollm2")
    assert span is not None
    assert len(exporter.get_finished_spans()) == 1
    assert span.name == "GET /v2/models/{model}"
    assert span.kind is SpanKind.SERVER
    assert dict(span.attributes or {}) == {
        "http.request.method": "GET",
        "http.route": "/v2/models/{model}",
        "http.response.status_code": 200,
        "url.path": "/v2/models/smollm2",
        "url.scheme": "http",
    }


async def test_a_plain_asgi_route_within_fastapi_names_its_span_too(exporter: InMemorySpanExporter) -> None:
    class Endpoint:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await _answering()(scope, receive, send)

    app = FastAPI()
    app.router.routes.append(Route("/v1/chat/completions", Endpoint(), methods=["POST"]))
    span = await _ask(app, exporter, path="/v1/chat/completions", method="POST")
    assert span is not None
    assert span.name == "POST /v1/chat/completions"
    assert (span.attributes or {})["http.route"] == "/v1/chat/completions"


async def test_an_unknown_path_and_an_unknown_method_make_no_new_names(exporter: InMemorySpanExporter) -> None:
    span = await _ask(FastAPI(), exporter, path="/wp-login.php", method="BREW")
    assert span is not None
    assert span.name == "HTTP"
    assert (span.attributes or {})["http.request.method"] == "_OTHER"
    assert "http.route" not in (span.attributes or {})


async def test_a_trusted_caller_is_the_parent(exporter: InMemorySpanExporter) -> None:
    span = await _ask(_answering(), exporter, (b"traceparent", TRACEPARENT), trust_inbound=True)
    assert span is not None
    assert span.parent is not None
    assert (span.context.trace_id, span.parent.span_id) == (TRACE_ID, SPAN_ID)
    assert not span.links


async def test_a_stranger_is_linked_to_and_chooses_no_trace_id(exporter: InMemorySpanExporter) -> None:
    span = await _ask(_answering(), exporter, (b"traceparent", TRACEPARENT))
    assert span is not None
    assert span.parent is None
    assert span.context.trace_id != TRACE_ID
    assert [(link.context.trace_id, link.context.span_id) for link in span.links] == [(TRACE_ID, SPAN_ID)]


async def test_a_stranger_does_not_choose_what_is_sampled(exporter: InMemorySpanExporter) -> None:
    assert await _ask(_answering(), exporter, (b"traceparent", TRACEPARENT), ratio=0.0) is None
    assert await _ask(_answering(), exporter, (b"traceparent", TRACEPARENT), ratio=0.0, trust_inbound=True)


@pytest.mark.parametrize(
    "headers",
    [
        [(b"traceparent", b"nonsense")],
        [(b"traceparent", b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01")],
        [(b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-" + b"0" * 16 + b"-01")],
        [(b"traceparent", b"ff" + TRACEPARENT[2:])],
        [(b"traceparent", TRACEPARENT + b"-more")],
        [(b"traceparent", b"\xff\xfe")],
        [(b"traceparent", b"x" * 5000)],
        [(b"traceparent", TRACEPARENT), (b"traceparent", TRACEPARENT)],
        [(b"tracestate", b"vendor=1")],
    ],
)
@pytest.mark.parametrize("trust_inbound", [True, False])
async def test_a_malformed_trace_context_begins_a_new_trace(
    headers: list[tuple[bytes, bytes]], trust_inbound: bool, exporter: InMemorySpanExporter
) -> None:
    span = await _ask(_answering(), exporter, *headers, trust_inbound=trust_inbound)
    assert span is not None
    assert span.parent is None
    assert not span.links
    assert span.context.trace_id not in (0, TRACE_ID)


@pytest.mark.parametrize(("status", "is_error"), [(200, False), (404, False), (499, False), (500, True), (503, True)])
async def test_only_a_5xx_is_an_error(status: int, is_error: bool, exporter: InMemorySpanExporter) -> None:
    span = await _ask(_answering(status), exporter)
    assert span is not None
    assert span.status.status_code is (StatusCode.ERROR if is_error else StatusCode.UNSET)
    assert (span.attributes or {}).get("error.type") == (str(status) if is_error else None)


async def test_an_error_type_that_the_app_gave_stands(exporter: InMemorySpanExporter) -> None:
    def say(scope: Scope) -> None:
        server_span(scope).set_attribute("error.type", "deadline_exceeded")

    span = await _ask(_answering(504, say), exporter)
    assert span is not None
    assert (span.attributes or {})["error.type"] == "deadline_exceeded"
    assert span.status.status_code is StatusCode.ERROR


async def test_an_exception_passes_through_and_is_named_without_its_message(exporter: InMemorySpanExporter) -> None:
    def fail(scope: Scope) -> None:
        raise ValueError("the prompt")

    with pytest.raises(ValueError, match="the prompt"):
        await _ask(_answering(200, fail), exporter)
    [span] = exporter.get_finished_spans()
    assert (span.attributes or {})["error.type"] == "ValueError"
    assert span.status.status_code is StatusCode.ERROR
    assert "the prompt" not in span.to_json()


async def test_a_cancelled_request_ends_its_span_and_is_no_error(exporter: InMemorySpanExporter) -> None:
    inside = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        inside.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(_ask(app, exporter))
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [span] = exporter.get_finished_spans()
    assert span.status.status_code is StatusCode.UNSET
    assert "error.type" not in (span.attributes or {})


async def test_probes_have_no_span_and_handlers_need_not_know(exporter: InMemorySpanExporter) -> None:
    seen = []
    assert await _ask(_answering(200, lambda scope: seen.append(server_span(scope))), exporter, path="/livez") is None
    assert seen == [INVALID_SPAN]


async def test_nothing_is_made_current_and_baggage_is_not_read(exporter: InMemorySpanExporter) -> None:
    seen: list[Any] = []
    app = _answering(200, lambda scope: seen.append((get_current_span(), dict(baggage.get_all()))))
    headers = [(b"traceparent", TRACEPARENT), (b"baggage", b"user=jane")]
    span = await _ask(app, exporter, *headers, trust_inbound=True)
    assert span is not None
    assert seen == [(INVALID_SPAN, {})]
    assert "jane" not in span.to_json()


async def test_neither_query_nor_a_long_path_is_recorded(exporter: InMemorySpanExporter) -> None:
    span = await _ask(_answering(), exporter, path="/" + "x" * 10_000)
    assert span is not None
    assert "secret" not in span.to_json()
    assert len(str((span.attributes or {})["url.path"])) == 256


async def test_a_traceparent_makes_the_other_process_a_child(exporter: InMemorySpanExporter) -> None:
    header: list[bytes] = []

    def call_on(scope: Scope) -> None:
        attempt = child(_tracer(exporter), server_span(scope), "chat m", SpanKind.CLIENT)
        header.append(traceparent(attempt).encode())
        attempt.end()

    server = await _ask(_answering(200, call_on), exporter)
    chat = exporter.get_finished_spans()[0]
    remote = await _ask(_answering(), exporter, (b"traceparent", header[0]), trust_inbound=True)
    assert server is not None
    assert remote is not None
    assert remote.parent is not None
    assert chat.parent is not None
    assert (chat.name, chat.parent.span_id, remote.parent.span_id) == (
        "chat m",
        server.context.span_id,
        chat.context.span_id,
    )
    assert {server.context.trace_id, chat.context.trace_id} == {remote.context.trace_id}


async def test_the_span_lasts_for_the_stream_and_a_hang_up_is_no_error(exporter: InMemorySpanExporter) -> None:
    """Over a socket: the client reads the first chunk, finds the span still open, and closes."""
    ended = asyncio.Event()

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
            await send({"type": "http.response.body", "body": b"into the void", "more_body": True})
        finally:
            ended.set()

    app = ServerSpanMiddleware(stream, _tracer(exporter), trust_inbound=False, quiet_paths=())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"GET /v1/stream HTTP/1.1\r\nhost: x\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"first"), 10)
        assert not exporter.get_finished_spans()
        writer.close()
        await asyncio.wait_for(ended.wait(), 10)
        server.should_exit = True
        await asyncio.wait_for(serving, 10)
    [span] = exporter.get_finished_spans()
    assert span.status.status_code is StatusCode.UNSET
    assert "error.type" not in (span.attributes or {})
