"""One attempt on one target: through the door, up to the point where its answer commits."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from gateway.answer import Answer, AnswerFacts, BufferedAnswer
from gateway.dispatch.content_encoding import decoded
from gateway.dispatch.refusals import refused
from gateway.dispatch.tensor_answer import tensor_answer
from gateway.dispatch.upstream import UpstreamStream, parse_answer
from gateway.egress.body import OutboundBody
from gateway.egress.door import PERMIT, Permit
from gateway.egress.transport import StaleConnection, UnreadableHead
from gateway.off_loop import READ_BYTES, off_loop_if_large
from gateway.targets.replica import Replica
from inference_protocol import headers, openai_embedding
from inference_protocol.errors import (
    DeadlineExceeded,
    TidegateError,
    UpstreamCaptive,
    UpstreamCut,
    UpstreamProtocol,
    UpstreamTimedOut,
    UpstreamUnreachable,
)
from inference_protocol.execution import Execution
from inference_protocol.json_body import splice
from inference_protocol.open_inference.infer_answer import BINARY_TYPE, JSON_TYPE
from inference_protocol.openai_stream import chunk_facts
from inference_protocol.request import InferenceRequest, Task
from inference_protocol.retry_after import read_retry_after_s

_MAX_ERROR_BYTES = 64 << 10  # of an error body; more is not read
_ERROR_BODY_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class AttemptPlan:
    """What an attempt needs, all decided beforehand.

    Attributes:
        path: Where at the target.
        headers: What goes beside the body, the target's own credential among it.
        deadline: Monotonic seconds by which the caller or the policy wants the first content (or the whole, where not
            streamed); `None` where neither said anything.
        patience_s: The gateway's own bound on the same.
        max_answer_bytes: Of an answer that is not streamed.
    """

    request: InferenceRequest
    permit: Permit
    path: str
    headers: Mapping[str, str]
    deadline: float | None
    patience_s: float
    max_answer_bytes: int


async def attempt(replica: Replica, plan: AttemptPlan, clock: Callable[[], float], wall: Callable[[], float]) -> Answer:
    """Ask an address and return its answer once it commits.

    Args:
        replica: The address.
        plan: What is asked.
        clock: Monotonic seconds.
        wall: Seconds since the epoch, for dates that the target names.

    Raises:
        UpstreamUnreachable: No connection; nothing was sent.
        UpstreamCut: The connection ended before content.
        UpstreamRefused: The target answered with an error of its own.
        UpstreamBlamedRequest: The target answered that the request is wrong.
        ContextLengthExceeded: The target answered that the prompt is too long for it.
        UpstreamProtocol: Its answer is not the protocol's.
        UpstreamTimedOut: Our own patience ran out first.
        DeadlineExceeded: The deadline passed first.
    """
    left_s = math.inf if plan.deadline is None else max(0.0, plan.deadline - clock())
    try:
        async with asyncio.timeout(min(left_s, plan.patience_s)):
            return await _until_commit(replica, plan, wall)
    except TimeoutError:
        if left_s <= plan.patience_s:
            raise DeadlineExceeded("The budget ran out before the answer began.") from None
        raise UpstreamTimedOut(f"The target gave no answer within {plan.patience_s:g} s.") from None


async def _until_commit(replica: Replica, plan: AttemptPlan, wall: Callable[[], float]) -> Answer:
    response = await _head(replica, plan)
    try:
        found = response.headers.get("content-type", "").lower()
        if response.status_code != 200 or (plan.request.stream and found.startswith("application/json")):
            raise await _error_of(response, wall)
        _check_type(found, plan.request)
        # Only runtimes of ours have a state, and this name is theirs to say.
        execution = None if replica.state is None else Execution.read(response.headers.get(headers.PROVIDER))
        if plan.request.stream:
            stream = UpstreamStream(response, wants_usage=plan.request.wants_usage, public_model=plan.request.model)
            stream.facts.execution = execution
            await stream.until_content()
            return stream
        answer = await _buffered(response, plan)
        answer.facts.execution = execution
    except BaseException:
        await response.aclose()
        raise
    await response.aclose()
    return answer


def _check_type(found: str, request: InferenceRequest) -> None:
    stream = request.stream
    if found.startswith("text/html"):
        raise UpstreamCaptive("The target answered with a web page: something on the way may want a login first.")
    if stream and not found.startswith("text/event-stream"):
        raise UpstreamProtocol(f"The target answered a stream request with {found or 'no type'!r}.")
    whole = (JSON_TYPE, BINARY_TYPE) if request.task is Task.TENSOR else (JSON_TYPE,)
    if not stream and not found.startswith(whole):
        raise UpstreamProtocol(f"The target answered with {found or 'no type'!r} instead of JSON.")


async def _head(replica: Replica, plan: AttemptPlan, *, again: bool = False) -> httpx.Response:
    body: OutboundBody = plan.permit.body
    request = httpx.Request(
        "POST",
        replica.url(plan.path),
        headers={**plan.headers, "content-length": str(len(body.content))},
        stream=httpx.ByteStream(body.content),  # spares httpx's own look at the content
        extensions={PERMIT: plan.permit},
    )
    try:
        return await replica.door.handle_async_request(request)
    except StaleConnection:
        if again:
            raise UpstreamCut("The target closed one connection after the other.") from None
        return await _head(replica, plan, again=True)
    except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
        raise UpstreamUnreachable(f"The target cannot be reached ({exc}).") from None
    except UnreadableHead:
        raise UpstreamProtocol("What the target answered is not HTTP, or its head passes all bounds.") from None
    except httpx.TransportError as exc:
        raise UpstreamCut(f"The connection to the target ended before an answer ({exc}).") from None


async def _buffered(response: httpx.Response, plan: AttemptPlan) -> BufferedAnswer:
    body = await _read(response, plan.max_answer_bytes)
    if plan.request.task is Task.TENSOR:
        return await off_loop_if_large(len(body), READ_BYTES, tensor_answer, response, body, plan.request)
    tree = await off_loop_if_large(len(body), READ_BYTES, parse_answer, body)
    found = chunk_facts(tree)
    if found.error is not None:
        raise refused(found.error, response, status=None)
    if plan.request.task is Task.EMBEDDING:
        _check_vectors(tree, plan.request)
    elif not found.content:
        raise UpstreamProtocol("The target's answer holds no choice.")
    if tree.get("model") not in (None, plan.request.model):
        body = splice(body, tree, {"model": orjson.dumps(plan.request.model)})
    facts = AnswerFacts()
    facts.add(found)
    return BufferedAnswer(body, facts)


def _check_vectors(tree: Mapping[str, Any], request: InferenceRequest) -> None:
    try:
        openai_embedding.check_answer(tree, request)
    except ValueError as exc:
        raise UpstreamProtocol(str(exc)) from None


async def _read(response: httpx.Response, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        async for chunk in decoded(response):
            size += len(chunk)
            if size > limit:
                raise UpstreamProtocol(f"The target's answer is larger than {limit} bytes.")
            parts.append(chunk)
    except httpx.TransportError as exc:
        raise UpstreamCut(f"The connection to the target ended in the middle ({type(exc).__name__}).") from None
    return b"".join(parts)


async def _error_of(response: httpx.Response, wall: Callable[[], float]) -> TidegateError:
    """Read a target's error answer; its words reach the caller. If they do not come, its status says enough."""
    status = response.status_code
    try:
        async with asyncio.timeout(_ERROR_BODY_TIMEOUT_S):
            tree = parse_answer(await _read(response, _MAX_ERROR_BYTES))
    except (UpstreamProtocol, UpstreamCut, TimeoutError):
        tree = {}
    if status == 200:  # some say so, and put an error in the place of a stream
        if "error" not in tree:
            return UpstreamProtocol("The target answered a stream request with one JSON document.")
        return refused(tree["error"], response, status=None)
    asked_s = read_retry_after_s(response.headers, wall_s=wall())
    error = tree.get("error") or tree
    if isinstance(error, str):  # the Open Inference Protocol's: a sentence, and what else is told stands beside it
        error = {**tree, "message": error}
    return refused(error, response, status=status, asked_s=asked_s)
