"""Sends what waits in the outbox, once somebody can answer it: decided again, by the policy that is in force then.

A request is looked at when a target that it waits for is up, and this device is online or the target is on it. It goes
the way of every other request, at a bounded rate, and holds one of the gateway's places.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from opentelemetry.trace import Link, SpanKind, Tracer, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.api.answering import Answering
from gateway.api.exchange_opener import ExchangeOpener
from gateway.exchange import Exchange
from gateway.identity import Identity
from gateway.kept.deferring import waits_for
from gateway.kept.outbox import Content, Outbox, owner_of
from gateway.kept.outbox_file import Row, State
from gateway.kept.room import KeptRoom
from gateway.kept_settings import OutboxSettings
from gateway.off_loop import READ_BYTES, off_loop_if_large
from gateway.pipeline import Pipeline
from gateway.quota import Quotas
from gateway.settle import Settlement
from gateway.state.sealing import Unsealable
from gateway.targets.connectivity import ConnectivityWatch
from gateway.targets.registry import Targets
from inference_protocol.errors import (
    AuthenticationFailed,
    InternalError,
    Overloaded,
    QuotaExceeded,
    TidegateError,
    Unavailable,
    UpstreamBusy,
    UpstreamUnreachable,
)
from inference_protocol.outcome import Outcome
from inference_protocol.request import InferenceRequest
from observability.spans import NO_CONTEXT
from routing_policies.signals.label import Component
from routing_policies.snapshot import Health
from serving.crashes import log_crash
from serving.in_flight import InFlight

_LOOK_EVERY_S = 0.25
# Answers are let go on time also while nothing waits and nobody asks.
_SWEEP_EVERY_S = 30.0
# For one that could not be sent after all, and for everything while the outbox cannot be used.
_REST_S = 5.0
# Errors of attempts at which a target was given nothing to do.
_NOT_TAKEN = frozenset({UpstreamUnreachable.code, UpstreamBusy.code, Overloaded.code})

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FlusherRooms:
    """What a deferred request passes when its turn has come: the same as every other."""

    identity: Identity
    quotas: Quotas
    admission: InFlight
    pipeline: Pipeline
    answering: Answering
    kept: KeptRoom
    settlement: Settlement
    targets: Targets
    connectivity: ConnectivityWatch
    parsers: Mapping[str, Callable[[bytes], InferenceRequest]]
    tracer: Tracer


class Flusher:
    """Sends deferred requests, the oldest first."""

    def __init__(self, outbox: Outbox, rooms: FlusherRooms, settings: OutboxSettings, begin: ExchangeOpener) -> None:
        """Send what waits in `outbox` through `rooms`; `begin` opens exchanges."""
        self._outbox = outbox
        self._rooms = rooms
        self._settings = settings
        self._begin = begin
        self._clock = begin.clock
        self._running: dict[str, asyncio.Task[None]] = {}
        self._rests_until: dict[str, float] = {}
        self._wanted = asyncio.Event()

    def flush(self) -> None:
        """Look at every waiting request now, at an operator's wish, also at one that rests."""
        self._rests_until.clear()
        self._wanted.set()

    async def run(self) -> None:
        """Send what can be sent, until cancelled."""
        sweep_at = self._clock()
        async with asyncio.TaskGroup() as group:
            while True:
                pause_s = _LOOK_EVERY_S
                try:
                    if self._clock() >= sweep_at:
                        sweep_at = self._clock() + min(_SWEEP_EVERY_S, self._settings.answer_s)
                        await self._outbox.expire()
                    if self._outbox.queued:
                        await self._begin_some(group)
                except Unavailable:
                    pause_s = _REST_S  # the outbox has said so in the log
                await self._pause(pause_s)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        except TimeoutError:
            return
        self._wanted.clear()

    async def _begin_some(self, group: asyncio.TaskGroup) -> None:
        await self._outbox.expire()
        waiting = await self._outbox.rows(State.QUEUED)
        self._rests_until = {row.id: self._rests_until[row.id] for row in waiting if row.id in self._rests_until}
        for row in waiting:
            if self._rooms.admission.draining or len(self._running) >= self._settings.at_once:
                return
            if row.id in self._running or not self._may_be_its_turn(row):
                continue
            task = group.create_task(self._take(row), name="flush")
            self._running[row.id] = task
            await asyncio.sleep(1 / self._settings.flush_per_s)

    def _may_be_its_turn(self, row: Row) -> bool:
        """Without a decision, which costs: whether anything that it waits for has come."""
        now = self._clock()
        if self._rests_until.get(row.id, now) > now:
            return False
        standing = {t.name: t.standing(now).health for t in self._rooms.targets}
        wanted = [name for name in row.waits_for.split(",") if name in standing]
        return not wanted or any(
            standing[name] is Health.UP and not self._rooms.connectivity.cuts_off(name) for name in wanted
        )

    async def _take(self, row: Row) -> None:
        """Supervise one request's turn: whatever happens to it, the others have theirs."""
        try:
            await self._answer(row)
        except Unavailable:
            self._rests_until[row.id] = self._clock() + _REST_S
        except (TidegateError, Unsealable) as exc:
            await self._fail(row, exc.code if isinstance(exc, TidegateError) else "unreadable")
        except Exception as exc:
            log_crash(_logger, row.id, exc)
            await self._fail(row, InternalError.code)
        finally:
            self._running.pop(row.id, None)

    async def _fail(self, row: Row, reason: str) -> None:
        with contextlib.suppress(Unavailable):  # the outbox has said so in the log
            await self._outbox.end(row, reason, None)

    async def _answer(self, row: Row) -> None:
        content = await self._outbox.content(row)
        if content is None:
            return
        exchange = self._open(row)
        try:
            with self._rooms.admission.place() as place:
                place.take(len(content.raw))
                await self._decide_and_send(row, content, exchange)
        except TidegateError as exc:
            exchange.fail(exc)
            raise
        finally:
            self._rooms.settlement.settle(exchange)
            exchange.span.end()

    async def _decide_and_send(self, row: Row, content: Content, exchange: Exchange) -> None:
        rooms = self._rooms
        principal = rooms.identity.of(row.principal, row.tenant)
        if principal is None:
            raise AuthenticationFailed("The key that the request came with is not known any more.")
        principal.check_may("defer", "deferrable")
        exchange.principal = replace(principal, key_label=Component.join([principal.key_label, content.key]))
        exchange.kept_taint = content.taint
        exchange.grant = rooms.quotas.grant(principal)
        request = await off_loop_if_large(len(content.raw), READ_BYTES, rooms.parsers[row.route], content.raw)
        decided = await rooms.pipeline.decide(exchange, request, content.fields)
        wanted = waits_for(decided, rooms.connectivity)
        if wanted:
            exchange.outcome = Outcome.DEFERRED
            self._rests_until[row.id] = self._clock() + _REST_S
            await self._outbox.wait_for(row, wanted)
            return
        kept = rooms.kept.answers.open(row.id, owner_of(row))
        try:
            if not await self._outbox.sending(row, exchange.request_id):
                exchange.outcome = Outcome.CLIENT_CLOSED  # it was dropped meanwhile
                return
            await rooms.kept.finishing.produce(exchange, kept, lambda send: rooms.answering.answer(exchange, send))
            if kept.was_stopped:
                await self._outbox.drop(row)
            elif _was_not_taken(exchange):
                self._rests_until[row.id] = self._clock() + _REST_S
                await self._outbox.requeue(row)
            else:
                await self._outbox.end(row, exchange.error.code if exchange.error is not None else "", kept.answer)
        finally:
            rooms.kept.answers.forget(kept)

    def _open(self, row: Row) -> Exchange:
        carrier = {"traceparent": row.trace}
        came_by = get_current_span(TraceContextTextMapPropagator().extract(carrier, NO_CONTEXT)).get_span_context()
        links = (Link(came_by),) if came_by.is_valid else ()
        span = self._rooms.tracer.start_span("flush", context=NO_CONTEXT, kind=SpanKind.CONSUMER, links=links)
        exchange = self._begin.open(row.route, span)
        exchange.deferred_id = row.id
        return exchange


def _was_not_taken(exchange: Exchange) -> bool:
    """Whether nobody was given the request to answer, so that it may be sent again."""
    error = exchange.error
    if not isinstance(error, (Unavailable, UpstreamBusy, QuotaExceeded)):
        return False
    return all(attempt.error in _NOT_TAKEN for attempt in exchange.attempts)
