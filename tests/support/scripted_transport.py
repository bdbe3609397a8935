"""Targets whose connections are a script: everything that was opened is on a list, and no socket is."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from gateway.egress.control import ControlDoor
from gateway.egress.door import Door
from gateway.egress.endpoint import Endpoint
from gateway.target_settings import TargetProtocol, TargetSettings
from gateway.targets.breaker import BreakerLimits
from gateway.targets.pool import Pool
from gateway.targets.replica import Replica
from gateway.targets.retry_budget import RetryBudget
from gateway.targets.target import Target
from routing_policies.snapshot import Health
from tests.support.scripted_runtime import DONE_EVENT, MODEL, event

Act = Callable[[httpx.Request], httpx.Response | Awaitable[httpx.Response]]


@dataclass
class Sent:
    """One request as it would have gone out."""

    target: str
    url: str
    headers: dict[str, str]
    body: bytes


class Stream(httpx.AsyncByteStream):
    """A body in these chunks, which may end with a failure."""

    def __init__(self, *chunks: bytes, then: Exception | None = None) -> None:
        self._chunks = chunks
        self._then = then

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk
        if self._then is not None:
            raise self._then


@dataclass
class ScriptedTransport(httpx.AsyncBaseTransport):
    """Answers each request by the next act of its script, and by the last one from then on."""

    target: str
    script: Sequence[Act]
    sent: list[Sent]
    on_sent: Callable[[], None] = lambda: None
    acts: int = field(default=0)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(Sent(self.target, str(request.url), dict(request.headers), request.read()))
        self.on_sent()
        act = self.script[min(self.acts, len(self.script) - 1)]
        self.acts += 1
        acted = act(request)
        response = acted if isinstance(acted, httpx.Response) else await acted
        response.request = request  # as real transports do
        return response


def saying(text: str) -> Act:
    """Answer by a text, as asked: streamed or not, a chat, a completion or a tensor; vectors say nothing."""

    def says(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/infer"):
            return _json(200, {"model_name": MODEL, "outputs": [_tensor_of(text)]})
        asked = json.loads(request.read())
        if "input" in asked:
            row = {"object": "embedding", "index": 0, "embedding": [0.6, 0.8]}
            return _json(200, {"object": "list", "model": MODEL, "data": [row], "usage": {"prompt_tokens": 1}})
        if "prompt" in asked:
            said = {"model": MODEL, "choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}
            return (
                _stream(b"data: " + json.dumps(said).encode() + b"\n\n", DONE_EVENT)
                if asked.get("stream")
                else _json(200, said)
            )
        if asked.get("stream"):
            return _stream(
                event(role="assistant", content=""), event(content=text), event(finish_reason="stop"), DONE_EVENT
            )
        message = {"role": "assistant", "content": text}
        return _json(200, {"model": MODEL, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    return says


def answers(request: httpx.Request) -> httpx.Response | Awaitable[httpx.Response]:
    """Answer as asked."""
    return saying("fine")(request)


def after(seconds: float, act: Act) -> Act:
    """Do the same, later."""

    async def later(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(seconds)
        acted = act(request)
        return acted if isinstance(acted, httpx.Response) else await acted

    return later


def says_busy(status: int = 429, **headers: str) -> Act:
    """Ask to be left alone; underscores in the names of headers are hyphens."""

    def busy(_: httpx.Request) -> httpx.Response:
        answer = _json(status, {"error": {"message": "slow down"}})
        answer.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
        return answer

    return busy


def says_too_long(window: int, status: int = 400) -> Act:
    """Find the prompt too long, in vLLM's words."""
    message = f"This model's maximum context length is {window} tokens. However, you requested 9000 tokens."

    def too_long(_: httpx.Request) -> httpx.Response:
        return _json(status, {"error": {"message": message, "type": "BadRequestError", "code": 400}})

    return too_long


def refuses_connection(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


def hangs_up(request: httpx.Request) -> httpx.Response:
    raise httpx.RemoteProtocolError("closed", request=request)


def says_500(_: httpx.Request) -> httpx.Response:
    return _json(500, {"error": {"message": "broken"}})


def says_429(_: httpx.Request) -> httpx.Response:
    return _json(429, {"error": {"message": "busy"}})


def says_400(_: httpx.Request) -> httpx.Response:
    return _json(400, {"error": {"message": "wrong"}})


def redirects(_: httpx.Request) -> httpx.Response:
    return httpx.Response(307, headers={"location": "http://elsewhere.invalid/"}, stream=Stream())


def ends_before_content(_: httpx.Request) -> httpx.Response:
    return _stream(event(role="assistant", content=""))


def breaks_before_content(_: httpx.Request) -> httpx.Response:
    return _stream(event(role="assistant", content=""), then=httpx.ReadError("reset"))


def breaks_after_content(_: httpx.Request) -> httpx.Response:
    return _stream(event(content="fi"), then=httpx.ReadError("reset"))


def sends_an_error_event(_: httpx.Request) -> httpx.Response:
    return _stream(b'data: {"error": {"message": "overloaded"}}\n\n')


def sends_html(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/html"}, stream=Stream(b"<html>sign in</html>"))


FAULTS: tuple[Act, ...] = (
    refuses_connection,
    hangs_up,
    says_500,
    says_429,
    says_400,
    redirects,
    ends_before_content,
    breaks_before_content,
    breaks_after_content,
    sends_an_error_event,
    sends_html,
)


def scripted_target(
    name: str,
    script: Sequence[Act],
    sent: list[Sent],
    *,
    protocol: TargetProtocol = TargetProtocol.OPENAI,
    health: Health = Health.UP,
    on_sent: Callable[[], None] = lambda: None,
    addresses: int = 1,
    clock: Callable[[], float] = time.monotonic,
    breaker: BreakerLimits | None = None,
    **settings: Any,
) -> Target:
    """A target behind its real doors, with the script where the connections of each address would be."""
    hosts = [f"{name}.invalid", *(f"{name}-{number}.invalid" for number in range(2, addresses + 1))]
    endpoints = tuple(f"http://{host}" for host in hosts)
    configured = TargetSettings(endpoints=endpoints, protocol=protocol, models={MODEL: MODEL}, **settings)
    credential = {"authorization": f"Bearer credential-of-{name}"}
    replicas = []
    for address in endpoints:
        endpoint = Endpoint.parse(address)
        door = Door(name, ScriptedTransport(name, script, sent, on_sent))
        control = ControlDoor(endpoint, ScriptedTransport(name, [refuses_connection], []), credential)
        replica = Replica(endpoint, door, control, places=configured.max_connections, breaker=breaker)
        replica.answered()
        replica.health = health
        replicas.append(replica)
    pool = Pool(name, replicas, max_waiting=configured.max_waiting, clock=clock, draw=random.Random(1))
    return Target(name, configured, credential, pool, RetryBudget(share=0.2, income_per_s=10.0))


def _tensor_of(text: str) -> dict[str, Any]:
    return {"name": "said", "datatype": "BYTES", "shape": [1], "data": [text]}


def _json(status: int, body: object) -> httpx.Response:
    headers = {"content-type": "application/json"}
    return httpx.Response(status, headers=headers, stream=Stream(json.dumps(body).encode()))


def _stream(*chunks: bytes, then: Exception | None = None) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Stream(*chunks, then=then))
