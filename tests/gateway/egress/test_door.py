"""The door opens nothing unless it is shown that this body may go to this target."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from gateway.egress.body import OutboundBody, outbound_body
from gateway.egress.door import PERMIT, Door, Permit
from inference_protocol.errors import EgressRefused
from inference_protocol.openai_chat import parse_chat
from routing_policies.policy.loader import LoadedPolicy, load_policy
from routing_policies.signals.label import Component, DataClass, Label
from routing_policies.verdict import Eligible, Transform
from tests.support.verdicts import verdict_for

RAW = b'{"model":"m","messages":[{"role":"user","content":"x"}]}'


class Counting(httpx.AsyncBaseTransport):
    """Stands where the connections would be, and counts."""

    def __init__(self) -> None:
        self.sent = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.sent += 1
        return httpx.Response(200)


def permit(
    *, level: DataClass = DataClass.PUBLIC, eligible: tuple[str, ...] = ("cloud",), policy: LoadedPolicy | None = None
) -> Permit:
    policy = policy or load_policy("balanced")
    body = outbound_body(parse_chat(RAW), {}, Transform.NONE)
    label = Label(DataClass.PUBLIC, declared=Component(level))
    return Permit(body, verdict_for(policy, label, tuple(Eligible(name) for name in eligible)), policy)


async def knock(door: Door, shown: object, content: bytes = RAW) -> None:
    request = httpx.Request("POST", "http://target/v1", content=content, extensions={PERMIT: shown} if shown else {})
    await door.handle_async_request(request)


async def test_a_cleared_body_passes() -> None:
    inner = Counting()
    await knock(Door("cloud", inner), permit())
    assert inner.sent == 1


def _forged() -> Permit:
    genuine = permit()
    return replace(genuine, body=genuine.body.content)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "shown",
    [
        None,
        "a permit",
        permit(level=DataClass.CONFIDENTIAL),
        permit(level=DataClass.RESTRICTED),
        permit(eligible=("edge",)),
        permit(eligible=()),
        replace(permit(), policy=load_policy("private-first")),
        _forged(),
    ],
    ids=["none", "other", "confidential", "restricted", "other target", "nobody", "other policy", "bare bytes"],
)
async def test_nothing_is_opened_without_a_permit_that_covers_it(shown: object) -> None:
    inner = Counting()
    with pytest.raises(EgressRefused):
        await knock(Door("cloud", inner), shown)
    assert inner.sent == 0


async def test_other_bytes_than_the_cleared_ones_do_not_pass() -> None:
    inner = Counting()
    with pytest.raises(EgressRefused):
        await knock(Door("cloud", inner), permit(), content=RAW + b" ")
    assert inner.sent == 0


def test_a_body_cannot_be_made_elsewhere() -> None:
    with pytest.raises(TypeError):
        OutboundBody(object(), b"x", Transform.NONE)


def test_a_splice_of_the_callers_text_is_refused() -> None:
    with pytest.raises(ValueError, match="messages"):
        outbound_body(parse_chat(RAW), {"messages": b"[]"}, Transform.NONE)


def test_a_transform_that_nobody_has_written_is_refused() -> None:
    with pytest.raises(ValueError, match="pseudonymize"):
        outbound_body(parse_chat(RAW), {}, Transform.PSEUDONYMIZE)
