"""`/v1/requests/{id}`: how a kept request stands, its answer, its stream from any event on, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import re

import orjson
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.api.guarded import principal_of
from gateway.api.request_headers import read_headers
from gateway.kept.answer import KeptAnswer
from gateway.kept.answers import Owner
from gateway.kept.deferring import described
from gateway.kept.outbox import Outbox
from gateway.kept.outbox_file import Row, State
from gateway.kept.room import KeptRoom
from gateway.state.sealing import Unsealable
from inference_protocol import headers
from inference_protocol.errors import AnswerGone, AnswerNotReady, InvalidField, InvalidHeader, TidegateError
from serving.answers import error_body, error_headers, send_head, send_json
from serving.client_watch import unless_gone

_EVENT_ID = re.compile(r"[0-9]{1,10}")
# How long the end of an answer may take once it was told to stop; the target has been told by then.
_STOPPING_S = 5.0

Deferred = tuple[Outbox, Row]


class KeptRequests:
    """What can be asked of kept requests, each as an ASGI application."""

    def __init__(self, kept: KeptRoom) -> None:
        """Find in `kept` what is a caller's."""
        self._answers = kept.answers
        self._delivery = kept.delivery
        self._outbox = kept.outbox

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
        request_id, owner = _asked(scope)
        deferred = await self._deferred(request_id, owner)
        if scope["method"] == "DELETE":
            await self._end(request_id, owner, deferred)
            await _send_nothing(send)
        elif deferred is not None:
            await send_json(send, 200, orjson.dumps(await described(*deferred)))
        else:
            await send_json(send, 200, orjson.dumps(self._answers.find(request_id, owner).to_json()))

    async def _end(self, request_id: str, owner: Owner, deferred: Deferred | None) -> None:
        """Stop what is being made, and forget what there is of it."""
        kept = self._answers.running(request_id, owner)
        if kept is not None:
            kept.stop()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOPPING_S):
                    await kept.answer.until_done()
        if deferred is None:
            self._answers.forget(kept or self._answers.find(request_id, owner))
        else:
            outbox, row = deferred
            await outbox.drop(row)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._found(*_asked(scope))
        if not answer.is_done:
            raise AnswerNotReady("The answer is not complete yet.")
        await self._deliver(answer, 0, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._found(*_asked(scope))
        given = read_headers(scope).get(headers.LAST_EVENT_ID)
        after = _event_number(given, answer)
        if answer.head is not None and not answer.head.is_stream:
            raise InvalidField("The request asked for no stream: fetch its `answer`.", param="request_id")
        if given is not None and answer.is_done and after == answer.pieces:
            await _send_nothing(send)  # which tells an event source to come back no more
            return
        await self._deliver(answer, after, receive, send)

    async def _found(self, request_id: str, owner: Owner) -> KeptAnswer:
        """Return the answer, as far as there is one."""
        deferred = await self._deferred(request_id, owner)
        if deferred is None:
            return self._answers.find(request_id, owner).answer
        outbox, row = deferred
        running = self._answers.running(request_id, owner)
        if row.state is State.SENDING and running is not None:
            return running.answer
        if row.state in {State.QUEUED, State.SENDING}:
            raise AnswerNotReady("The request still waits for somebody who can answer it.", retry_after_s=10.0)
        try:
            answer = await outbox.answer(row)
        except Unsealable:
            raise _gone("unreadable") from None
        if answer is None:
            raise _gone(row.reason)
        return answer

    async def _deferred(self, request_id: str, owner: Owner) -> Deferred | None:
        row = None if self._outbox is None else await self._outbox.find(request_id, owner)
        return None if self._outbox is None or row is None else (self._outbox, row)

    async def _deliver(self, answer: KeptAnswer, after: int, receive: Receive, send: Send) -> None:
        if answer.is_done and answer.head is None:
            raise _gone("no-answer")
        await unless_gone(self._delivery.deliver(answer, send, after), receive)


def _asked(scope: Scope) -> tuple[str, Owner]:
    return scope["path_params"]["request_id"], Owner.of(principal_of(scope))


def _gone(reason: str) -> AnswerGone:
    return AnswerGone("There is no answer of this request, or none any more.", details={"reason": reason})


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
