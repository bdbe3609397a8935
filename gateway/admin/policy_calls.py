"""What can be asked of a roll-out: `POST /policy/…`. Each call names who it is by, and may say why."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.admin import paths
from gateway.admin.app import Call, Route
from gateway.policies.bundle import signatures_from_json
from gateway.policies.document import Document
from gateway.policies.holder import StickyBy
from gateway.policies.offers import By, Change
from gateway.policies.rollout import Rollout
from inference_protocol.errors import InvalidField, InvalidRequest
from routing_policies.policy.errors import PolicyError
from serving.signatures import Envelope

Percent = Annotated[float, Field(gt=0, le=100)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    why: str = Field(default="", max_length=500)


class _Activate(_Body):
    number: int = Field(ge=1)


class _Sent(_Body):
    """A policy or a bundle, as the caller read it: the gateway reads no file that a call names."""

    document: str
    origin: str = Field(default="sent", max_length=500)

    def read(self) -> Document:
        return Document.of(self.origin, self.document.encode("utf-8", "surrogatepass"))


class _Canary(_Sent):
    percent: Percent
    by: Annotated[StickyBy, Field(strict=False)] = StickyBy.TENANT


class _Shadow(_Sent):
    percent: Percent = 100.0


class _Approve(_Body):
    kind: str
    payload: str
    signatures: list[dict[str, str]] = Field(max_length=16)

    def envelope(self) -> Envelope:
        try:
            payload = base64.b64decode(self.payload, validate=True)
        except binascii.Error:
            raise InvalidField("`payload` must be in base64.", param="payload") from None
        try:
            return Envelope(self.kind, payload, signatures_from_json(self.signatures))
        except ValueError:
            message = "`signatures` must be a list of objects with `keyid`, and `sig` in base64."
            raise InvalidField(message, param="signatures") from None


B = TypeVar("B", bound=_Body)
T = TypeVar("T")


class PolicyCalls:
    """Turns calls into what a roll-out does."""

    def __init__(self, rollout: Rollout) -> None:
        """Act on this roll-out."""
        self._rollout = rollout

    def routes(self) -> list[Route]:
        """The routes of these calls."""
        return [
            Route("POST", paths.RELOAD, self.reload),
            Route("POST", paths.ACTIVATE, self.activate),
            Route("POST", paths.ROLLBACK, self.rollback),
            Route("POST", paths.APPROVE, self.approve),
            Route("POST", paths.CANARY, self.start_canary),
            Route("POST", paths.CANARY_PROMOTE, self.promote_canary),
            Route("POST", paths.CANARY_END, self.end_canary),
            Route("POST", paths.SHADOW, self.start_shadow),
            Route("POST", paths.SHADOW_END, self.end_shadow),
        ]

    async def reload(self, call: Call) -> dict[str, Any]:
        """Read the policy's file again, and put what it holds in force."""
        return await _changed(self._rollout.reload(_by(call, _read(_Body, call))))

    async def activate(self, call: Call) -> dict[str, Any]:
        """Put a version that was in force before in force again."""
        body = _read(_Activate, call)
        return await _changed(self._rollout.activate(body.number, _by(call, body)))

    async def rollback(self, call: Call) -> dict[str, Any]:
        """Put the version before this one in force again."""
        return await _changed(self._rollout.rollback(_by(call, _read(_Body, call))))

    async def approve(self, call: Call) -> dict[str, Any]:
        """Add a signature to what waits for it."""
        body = _read(_Approve, call)
        return await _changed(self._rollout.approve(body.envelope(), _by(call, body)))

    async def start_canary(self, call: Call) -> dict[str, Any]:
        """Let a policy decide for some requests."""
        body = _read(_Canary, call)
        return await _sent(
            body, lambda document: self._rollout.start_canary(document, body.percent, body.by, _by(call, body))
        )

    async def promote_canary(self, call: Call) -> dict[str, Any]:
        """Put the canary in force for all requests."""
        return await _changed(self._rollout.promote_canary(_by(call, _read(_Body, call))))

    async def end_canary(self, call: Call) -> dict[str, Any]:
        """Have the stable policy decide for all requests again."""
        return await _ended(self._rollout.end_canary(_by(call, _read(_Body, call))))

    async def start_shadow(self, call: Call) -> dict[str, Any]:
        """Ask a policy what it would decide."""
        body = _read(_Shadow, call)
        return await _sent(body, lambda document: self._rollout.start_shadow(document, body.percent, _by(call, body)))

    async def end_shadow(self, call: Call) -> dict[str, Any]:
        """Ask the shadow no more."""
        return await _ended(self._rollout.end_shadow(_by(call, _read(_Body, call))))


def as_json(change: Change) -> dict[str, Any]:
    """A change, with each way in which it is looser as a request that `tidegate policy explain` takes."""
    return {
        "became": change.became,
        "version": change.number,
        "looser": [
            {"words": one.words, "target": one.target, "class": one.data_class, "example": one.example}
            for one in change.looser
        ],
        "warnings": list(change.warnings),
        "signed_by": list(change.signed_by),
        "missing": change.missing,
    }


async def _changed(work: Awaitable[Change]) -> dict[str, Any]:
    return as_json(await _done(work))


async def _ended(work: Awaitable[None]) -> dict[str, Any]:
    await _done(work)
    return {"became": "ended"}


async def _done(work: Awaitable[T]) -> T:
    try:
        return await work
    except PolicyError as exc:
        place = {"file": exc.file, "line": exc.line, "column": exc.column}
        raise InvalidRequest(str(exc), details=place) from None


async def _sent(body: _Sent, work: Callable[[Document], Awaitable[Change]]) -> dict[str, Any]:
    async def read_and_work() -> Change:
        return await work(body.read())

    return await _changed(read_and_work())


def _by(call: Call, body: _Body) -> By:
    return By(call.who, body.why)


def _read(model: type[B], call: Call) -> B:
    try:
        return model.model_validate(call.body)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "body"
        raise InvalidField(f"`{where}`: {first['msg']}.", param=where) from None
