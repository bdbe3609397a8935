"""The door opens nothing unless it is shown that this body may go to this target."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from gateway.egress.body import OutboundBody, outbound_body, pseudonymized_body
from gateway.egress.door import PERMIT, Door, Permit
from gateway.egress.pseudonyms import Pseudonymizer
from gateway.state.keys import Keys
from inference_protocol.errors import EgressRefused
from inference_protocol.openai_chat import parse_chat
from routing_policies.policy.loader import LoadedPolicy, load_policy, load_text
from routing_policies.signals.label import Component, DataClass, Label
from routing_policies.signals.scanner import build_scanner
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
    body = outbound_body(parse_chat(RAW), {})
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
    return replace(genuine, body=genuine.body.content)  # type: ignore[arg-type]  # a forgery


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
        OutboundBody(object(), b"x")


def test_a_splice_of_the_callers_text_is_refused() -> None:
    with pytest.raises(ValueError, match="messages"):
        outbound_body(parse_chat(RAW), {"messages": b"[]"})


async def test_data_with_a_tag_that_the_target_may_not_be_sent_does_not_pass() -> None:
    genuine = permit()
    tagged = replace(genuine.verdict, label=Label(DataClass.PUBLIC, declared=Component(None, frozenset({"export"}))))
    with pytest.raises(EgressRefused, match="tags"):
        await knock(Door("cloud", Counting()), replace(genuine, verdict=tagged))


REPLACING = """
apiVersion: tidegate/v1
name: replacing
defaults: {class: public}
targets:
  cloud: {kind: cloud, clearance: internal, pseudonymize: [pii]}
"""
PERSONAL = parse_chat(b'{"model":"m","messages":[{"role":"user","content":"I am jane.doe@corp.com"}]}')


def replacing_permit(label: Label, *, transform: Transform, tags: tuple[str, ...] = ("pii",)) -> Permit:
    policy = load_text(REPLACING, "replacing.yaml")
    if transform is Transform.NONE:
        body = outbound_body(PERSONAL, {})
    else:
        pseudonymizer = Pseudonymizer(build_scanner(), Keys(b"k" * 32))
        body = pseudonymized_body(PERSONAL, {}, pseudonymizer, tags=tags, tenant="t")
    return Permit(body, verdict_for(policy, label, (Eligible("cloud", transform),)), policy)


FOUND = Component(DataClass.CONFIDENTIAL, frozenset({"pii"}))


async def test_a_body_whose_findings_were_replaced_passes_without_them() -> None:
    inner = Counting()
    shown = replacing_permit(Label(DataClass.PUBLIC, findings=FOUND), transform=Transform.PSEUDONYMIZE)
    await knock(Door("cloud", inner), shown, shown.body.content)
    assert inner.sent == 1
    assert b"jane" not in shown.body.content


@pytest.mark.parametrize("component", ["declared", "key", "taint", "uninspected"])
async def test_replacing_lowers_nothing_but_findings(component: str) -> None:
    label = Label(DataClass.PUBLIC, findings=FOUND, **{component: Component(DataClass.CONFIDENTIAL)})
    shown = replacing_permit(label, transform=Transform.PSEUDONYMIZE)
    with pytest.raises(EgressRefused, match="clearance"):
        await knock(Door("cloud", Counting()), shown, shown.body.content)


@pytest.mark.parametrize(
    ("label", "transform", "tags"),
    [
        (Label(DataClass.PUBLIC, findings=FOUND), Transform.NONE, ()),
        (Label(DataClass.PUBLIC, findings=FOUND, fixed=frozenset({"pii"})), Transform.PSEUDONYMIZE, ("pii",)),
        (Label(DataClass.PUBLIC, findings=FOUND), Transform.PSEUDONYMIZE, ("pci",)),
    ],
    ids=["nothing was replaced", "some could not be replaced", "something else was replaced"],
)
async def test_findings_that_are_still_there_do_not_pass(
    label: Label, transform: Transform, tags: tuple[str, ...]
) -> None:
    shown = replacing_permit(label, transform=transform, tags=tags)
    with pytest.raises(EgressRefused):
        await knock(Door("cloud", Counting()), shown, shown.body.content)
