"""One attempt on one target: through the door, up to the point where its answer commits."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx
import orjson

from gateway.answer import Answer, AnswerFacts, BufferedAnswer
from gateway.dispatch.upstream import UpstreamStream, parse_answer, refused
from gateway.egress.body import OutboundBody
from gateway.egress.door import PERMIT, Permit
from gateway.egress.transport import StaleConnection
from gateway.targets.target import Target
from inference_protocol import paths
from inference_protocol.errors import (
    DeadlineExceeded,
    TidegateError,
    UpstreamCut,
    UpstreamProtocol,
    UpstreamTimedOut,
    UpstreamUnreachable,
)
from inference_protocol.json_body import splice
from inference_protocol.openai_stream import chunk_facts
from inference_protocol.request import InferenceRequest

_MAX_ERROR_BYTES = 64 << 10  # of an error body; more is not read
_ERROR_BODY_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class AttemptPlan:
    """What an attempt needs, all decided beforehand.

    Attributes:
        headers: What goes beside the body; credentials are the target's own and not among them.
        deadline: Monotonic seconds by which the caller or the policy wants the first content (or the whole, where not
            streamed); `None` where neither said anything.
        patience_s: The gateway's own bound on the same.
        idle_timeout_s: Longest silence within an answer that is streamed.
        max_answer_bytes: Of one that is not.
    """

    request: InferenceRequest
    permit: Permit
    headers: Mapping[str, str]
    deadline: float | None
    patience_s: float
    idle_timeout_s: float
    max_answer_bytes: int


async def attempt(target: Target, plan: AttemptPlan, clock: Callable[[], float]) -> Answer:
    """Ask a target and return its answer once it commits.

    Raises:
        UpstreamUnreachable: No connection; nothing was sent.
        UpstreamCut: The connection ended before content.
        UpstreamRefused: The target answered with an error of its own.
        UpstreamBlamedRequest: The target answered that the request is wrong.
        UpstreamProtocol: Its answer is not the protocol's.
        UpstreamTimedOut: Our own patience ran out first.
        DeadlineExceeded: The deadline passed first.
    """
    left_s = math.inf if plan.deadline is None else max(0.0, plan.deadline - clock())
    try:
        async with asyncio.timeout(min(left_s, plan.patience_s)):
            return await _until_commit(target, plan)
    except TimeoutError:
        if left_s <= plan.patience_s:
            raise DeadlineExceeded("The budget ran out before the answer began.") from None
        raise UpstreamTimedOut(f"`{target.name}` gave no answer within {plan.patience_s:g} s.") from None


async def _until_commit(target: Target, plan: AttemptPlan) -> Answer:
    response = await _head(target, plan)
    try:
        if response.status_code != 200:
            raise await _error_of(response)
        content_type = response.headers.get("content-type", "").lower()
        if plan.request.stream:
            if not content_type.startswith("text/event-stream"):
                raise UpstreamProtocol(f"The target answered a stream request with {content_type or 'no type'!r}.")
            stream = UpstreamStream(
                response,
                wants_usage=plan.request.wants_usage,
                public_model=plan.request.model,
                idle_timeout_s=plan.idle_timeout_s,
            )
            await stream.until_content()
            return stream
        if not content_type.startswith("application/json"):
            raise UpstreamProtocol(f"The target answered with {content_type or 'no type'!r} instead of JSON.")
        return await _buffered(response, plan)
    except BaseException:
        await response.aclose()
        raise


async def _head(target: Target, plan: AttemptPlan, *, again: bool = False) -> httpx.Response:
    body: OutboundBody = plan.permit.body
    request = httpx.Request(
        "POST",
        target.url(paths.CHAT_COMPLETIONS),
        headers={**plan.headers, **target.credential, "content-length": str(len(body.content))},
        stream=httpx.ByteStream(body.content),  # spares httpx's own look at the content
        extensions={PERMIT: plan.permit},
    )
    try:
        return await target.door.handle_async_request(request)
    except StaleConnection:
        if again:
            raise UpstreamCut(f"`{target.name}` closed one connection after the other.") from None
        return await _head(target, plan, again=True)
    except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
        raise UpstreamUnreachable(f"`{target.name}` cannot be reached ({exc}).") from None
    except httpx.TransportError as exc:
        raise UpstreamCut(f"The connection to `{target.name}` ended before an answer ({exc}).") from None


async def _buffered(response: httpx.Response, plan: AttemptPlan) -> BufferedAnswer:
    body = await _read(response, plan.max_answer_bytes)
    tree = parse_answer(body)
    found = chunk_facts(tree)
    if found.error is not None:
        raise refused(found.error, status=None)
    if not found.content:
        raise UpstreamProtocol("The target's answer holds no choice.")
    if tree.get("model") not in (None, plan.request.model):
        body = splice(body, tree, {"model": orjson.dumps(plan.request.model)})
    facts = AnswerFacts()
    facts.add(found)
    return BufferedAnswer(body, facts)


async def _read(response: httpx.Response, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        async for chunk in response.aiter_raw():
            size += len(chunk)
            if size > limit:
                raise UpstreamProtocol(f"The target's answer is larger than {limit} bytes.")
            parts.append(chunk)
    except httpx.TransportError as exc:
        raise UpstreamCut(f"The connection to the target ended in the middle ({type(exc).__name__}).") from None
    return b"".join(parts)


async def _error_of(response: httpx.Response) -> TidegateError:
    """Read a target's error answer; its words reach the caller. If they do not come, its status says enough."""
    status = response.status_code
    try:
        async with asyncio.timeout(_ERROR_BODY_TIMEOUT_S):
            tree = parse_answer(await _read(response, _MAX_ERROR_BYTES))
    except (UpstreamProtocol, UpstreamCut, TimeoutError):
        tree = {}
    return refused(tree.get("error") or tree, status=status)
