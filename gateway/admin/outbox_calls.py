"""What operators see and do of the outbox: `GET /outbox`, `POST /outbox/…`. They see who waits, and nothing of what."""

from __future__ import annotations

from typing import Any

from gateway.admin import paths
from gateway.admin.app import Call, Route
from gateway.kept.deferring import described
from gateway.kept.flusher import Flusher
from gateway.kept.outbox import Outbox
from gateway.kept.outbox_file import Row, State
from inference_protocol import fields
from inference_protocol.errors import InvalidField, UnknownRequest


class OutboxCalls:
    """Turns calls into what is done with the outbox."""

    def __init__(self, outbox: Outbox, flusher: Flusher) -> None:
        """Act on this outbox."""
        self._outbox = outbox
        self._flusher = flusher

    def routes(self) -> list[Route]:
        """The routes of these calls."""
        return [
            Route("GET", paths.OUTBOX, self.list),
            Route("POST", paths.OUTBOX_FLUSH, self.flush),
            Route("POST", paths.OUTBOX_DROP, self.drop),
        ]

    async def list(self, call: Call) -> dict[str, Any]:
        """Every request in it, in the order of the line."""
        await self._outbox.expire()
        return {"requests": [await self._shown(row) for row in await self._outbox.rows()]}

    async def flush(self, call: Call) -> dict[str, Any]:
        """Look at every waiting request now."""
        self._flusher.flush()
        return {"waiting": self._outbox.queued}

    async def drop(self, call: Call) -> dict[str, Any]:
        """Forget some requests, or all that wait. One that is being sent cannot be dropped here.

        Raises:
            InvalidField: Neither is asked for.
            UnknownRequest: One of them is not there.
        """
        if fields.boolean(call.body, "waiting"):
            rows = await self._outbox.rows(State.QUEUED)
        else:
            rows = [await self._named(each) for each in _ids(call.body)]
        dropped = [row.id for row in rows if await self._outbox.drop(row)]
        return {"dropped": dropped}

    async def _named(self, request_id: str) -> Row:
        row = await self._outbox.find(request_id)
        if row is None:
            raise UnknownRequest("There is no request of that id in the outbox.", param="ids")
        if row.state is State.SENDING:
            raise InvalidField("A request is being sent: its caller can stop it, or wait for its end.", param="ids")
        return row

    async def _shown(self, row: Row) -> dict[str, Any]:
        told = await described(self._outbox, row)
        waits = row.waits_for.split(",") if row.state is State.QUEUED else []
        own = {"tenant": row.tenant, "key": row.principal, "bytes": row.bytes, "waits_for": waits}
        return {name: value for name, value in {**told, **own}.items() if not name.endswith("_url")}


def _ids(body: dict[str, Any]) -> list[str]:
    ids = body.get("ids")
    if not isinstance(ids, list) or not ids or not all(isinstance(each, str) for each in ids):
        raise InvalidField("Name the requests in `ids`, or say `waiting`: true.", param="ids")
    return ids
