"""`/v1/requests/{id}`: how a kept request stands, its answer, its stream from any event on, and its end."""

from __future__ import annotations

import asyncio
import re

import orjson
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.api.request_headers import read_headers
from gateway.identity import Identity
from gateway.kept.answer import KeptAnswer
from gateway.kept.answers import Kept, KeptAnswers, Owner
from gateway.kept.delivery import Delivery
from inference_protocol import headers
from inference_protocol.errors import AnswerGone, AnswerNotReady, InvalidHeader, InvalidRequest, TidegateError
from serving.answers import error_body, error_headers, send_head, send_json
from serving.client_watch import unless_gone

_EVENT_ID = re.compile(r"[0-9]{1,10}")
# How long the end of an answer may take once it was told to stop; the target has been told by then.
_STOPPING_S = 5.0


class KeptRequests:
    """What can be asked of kept requests, each as an ASGI application."""

    def __init__(self, identity: Identity, answers: KeptAnswers, delivery: Delivery) -> None:
        """Tell callers apart by `identity`, find in `answers`, and send by `delivery`."""
        self._identity = identity
        self._answers = answers
        self._delivery = delivery

    @property
    def request(self) -> ASGIApp:
        """`GET` says how a request stands, `DELETE` ends it and forgets its answer."""
        return _Guarded(self._request)

    @property
    def answer(self) -> ASGIApp:
        """`GET` returns the answer as its caller would have had it."""
        return _Guarded(self._answer)

    @property
    def stream(self) -> ASGIApp:
        """`GET` returns a stream's events after `Last-Event-ID`, as they come."""
        return _Guarded(self._stream)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        kept = self._find(scope)
        if scope["method"] != "DELETE":
            await send_json(send, 200, orjson.dumps(kept.to_json()))
            return
        kept.stop()
        async with asyncio.timeout(_STOPPING_S):
            await kept.answer.until_done()
        self._answers.forget(kept)
        await _send_nothing(send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        kept = self._find(scope)
        if kept.ended_at is None:
            raise AnswerNotReady("The answer is not complete yet.")
        await self._deliver(kept.answer, 0, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        kept = self._find(scope)
        given = read_headers(scope).get(headers.LAST_EVENT_ID)
        after = _event_number(given, kept.answer)
        head = kept.answer.head
        if head is not None and not head.is_stream:
            raise InvalidRequest("The request asked for no stream: fetch its `answer`.", param="request_id")
        if given is not None and kept.answer.is_done and after == kept.answer.pieces:
            await _send_nothing(send)  # which tells an event source to come back no more
            return
        await self._deliver(kept.answer, after, receive, send)

    async def _deliver(self, answer: KeptAnswer, after: int, receive: Receive, send: Send) -> None:
        if answer.is_done and answer.head is None:
            raise AnswerGone("The request ended without an answer.", details={"reason": "no-answer"})
        await unless_gone(self._delivery.deliver(answer, send, after), receive)

    def _find(self, scope: Scope) -> Kept:
        principal = self._identity.identify(read_headers(scope))
        return self._answers.find(scope["path_params"]["request_id"], Owner.of(principal))


class _Guarded:
    """Answers errors in the shape of every other one. A class, since a router takes functions for something else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except TidegateError as exc:
            await send_json(send, exc.http_status, error_body(exc, None), error_headers(exc))
        except ClientDisconnect:
            return


def _event_number(given: str | None, answer: KeptAnswer) -> int:
    if given is None:
        return 0
    if not _EVENT_ID.fullmatch(given) or int(given) > answer.pieces:
        raise InvalidHeader(
            f"`{headers.LAST_EVENT_ID}` must be the `id` of an event of this stream.", param=headers.LAST_EVENT_ID
        )
    return int(given)


async def _send_nothing(send: Send) -> None:
    await send_head(send, 204, {})
    await send({"type": "http.response.body", "body": b""})
