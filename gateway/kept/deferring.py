"""`"deferrable": true`: a request that nobody can answer now is put off, where its caller's key allows that.

It is put off while a target that its policy allows is down, and nobody else can answer or this device is offline. A
request that no other target could ever answer is answered here, offline or not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from starlette.types import Send

import observability
from gateway.api.answering import Answering
from gateway.api.response_headers import decision_headers
from gateway.exchange import Decided, Exchange
from gateway.kept.answers import Owner
from gateway.kept.outbox import Content, Outbox
from gateway.kept.outbox_file import Row, State
from gateway.pipeline import Pipeline
from gateway.targets.connectivity import ConnectivityWatch
from inference_protocol import headers, paths
from inference_protocol.errors import InvalidHeader, NoTargetAvailable, PermissionDenied
from inference_protocol.outcome import Outcome
from inference_protocol.request import InferenceRequest
from routing_policies.verdict import ExclusionKind
from serving.answers import send_json

# What says how far its content may travel. Budgets and hints are of the moment, and have passed by its turn.
_KEPT_FIELDS = (headers.DATA_CLASS, headers.DATA_TAGS)
# A string of structured fields (RFC 9651), as draft-ietf-httpapi-idempotency-key-header asks, or the bare text.
_IDEMPOTENCY_KEY = re.compile(r'"([\x20-\x21\x23-\x5b\x5d-\x7e]{1,255})"|([\x21\x23-\x2b\x2d-\x7e]{1,255})')


def waits_for(decided: Decided, connectivity: ConnectivityWatch) -> str:
    """The targets that a deferrable request waits for, by name; empty where it shall be answered or refused now."""
    down = [name for name, why in decided.verdict.excluded.items() if why.kind is ExclusionKind.DOWN]
    return ",".join(down) if not decided.verdict.eligible or connectivity.is_cut_off else ""


class Deferring:
    """Answers requests, and puts off those that may be and that nobody can answer."""

    def __init__(
        self,
        answering: Answering,
        pipeline: Pipeline,
        outbox: Outbox | None,
        connectivity: ConnectivityWatch,
    ) -> None:
        """Answer by `answering`; `outbox` is there where anybody may put anything off."""
        self._answering = answering
        self._pipeline = pipeline
        self._outbox = outbox
        self._connectivity = connectivity

    async def __call__(
        self, exchange: Exchange, request: InferenceRequest, fields: Mapping[str, str], send: Send
    ) -> None:
        """Answer, or say where the answer will be found.

        Raises:
            TidegateError: Nothing has been sent, and nobody can answer.
        """
        if not request.deferrable:
            await self._answering(exchange, request, fields, send)
            return
        assert exchange.principal is not None, "identify comes first"
        exchange.principal.check_may("defer", "deferrable")
        if self._outbox is None:
            raise PermissionDenied(
                "The first key that may put requests off was made while the gateway ran: restart it.",
                param="deferrable",
            )
        key = _idempotency_key(fields)
        if key is not None:
            row = await self._outbox.known(Owner.of(exchange.principal), key, request.raw)
            if row is not None:
                await self._accept(exchange, self._outbox, row, send)
                return
        decided = await self._pipeline.decide(exchange, request, fields)
        wanted = waits_for(decided, self._connectivity)
        if wanted:
            await self._pipeline.put_off(exchange)
        else:
            try:
                await self._answering.answer(exchange, send)
                return
            except NoTargetAvailable:
                wanted = ",".join(e.target for e in decided.verdict.eligible)
        row = await self._put_off(exchange, self._outbox, fields, key, wanted)
        await self._accept(exchange, self._outbox, row, send)

    async def _put_off(
        self, exchange: Exchange, outbox: Outbox, fields: Mapping[str, str], key: str | None, wanted: str
    ) -> Row:
        assert exchange.principal is not None, "identify comes first"
        view, request = exchange.decided.view, exchange.decided.request
        kept_fields = {name: fields[name] for name in _KEPT_FIELDS if name in fields}
        content = Content(request.raw, kept_fields, view.label.key, view.label.taint)
        trace = observability.traceparent(exchange.span)
        owner = Owner.of(exchange.principal)
        return await outbox.add(exchange.request_id, owner, exchange.route, content, key, waits_for=wanted, trace=trace)

    async def _accept(self, exchange: Exchange, outbox: Outbox, row: Row, send: Send) -> None:
        exchange.outcome = Outcome.DEFERRED
        body = await described(outbox, row)
        told = {**decision_headers(exchange), headers.REQUEST_ID: row.id, "location": body["status_url"]}
        await send_json(send, 202, orjson.dumps(body), told)


async def described(outbox: Outbox, row: Row) -> dict[str, Any]:
    """What the owner of a deferred request is shown of it."""
    return {
        "id": row.id,
        "object": "request",
        "status": "running" if row.state is State.SENDING else row.state.value,
        "position": await outbox.position(row) if row.state is State.QUEUED else None,
        "reason": row.reason or None,
        "run": row.run or None,
        "accepted_at": _utc(row.accepted_at),
        "expires_at": _utc(row.expires_at),
        "status_url": paths.KEPT_REQUEST.format(request_id=row.id),
        "answer_url": paths.KEPT_ANSWER.format(request_id=row.id),
    }


def _idempotency_key(fields: Mapping[str, str]) -> str | None:
    given = fields.get(headers.IDEMPOTENCY_KEY)
    if given is None:
        return None
    found = _IDEMPOTENCY_KEY.fullmatch(given.strip())
    if found is None:
        raise InvalidHeader(
            f"`{headers.IDEMPOTENCY_KEY}` must be one string of 1 to 255 printable characters.",
            param=headers.IDEMPOTENCY_KEY,
        )
    return found[1] or found[2]


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
