"""A request in a file, as `policy prove` writes its counterexamples and `policy explain` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, StrictStr

from inference_protocol.openai_chat import parse_chat
from inference_protocol.request import Task
from inference_protocol.text_parts import UninspectableCause
from routing_policies.policy.examples import GivenDevice, GivenTarget
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.policy.parts import ClassWord
from routing_policies.signals.deadline import parse_deadline
from routing_policies.signals.hints import parse_hints
from routing_policies.signals.label import NOTHING, Finding, Label, ScanResult, label_of, parse_label_headers
from routing_policies.signals.scanner import Scanner
from routing_policies.signals.size import Calibration, Size, TokenCounter, TokenInterval, exact, measure
from routing_policies.view import RequestView, Tenant


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Caller(_Part):
    """Who calls: in service, their key says so."""

    tenant: str = "local"
    roles: tuple[str, ...] = ()
    residency: str = ""
    uninspected: Mapping[UninspectableCause, ClassWord] = {}


class Assume(_Part):
    """What a body of a sensible length does not show, taken as measured."""

    tokens: int | None = Field(default=None, ge=0)
    body_bytes: int | None = Field(default=None, ge=0)
    task: Task = Task.CHAT
    causes: tuple[UninspectableCause, ...] = ()
    findings: tuple[str, ...] = ()


class RequestFile(_Part):
    """The file.

    Attributes:
        headers: By name.
        device: State of this device; online where nothing is said.
        targets: State of the targets; up and able where nothing is said.
    """

    headers: Mapping[str, StrictStr] = {}
    body: Mapping[str, Any] = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
    caller: Caller = Caller()
    assume: Assume = Assume()
    device: GivenDevice = GivenDevice()
    targets: Mapping[str, GivenTarget] = {}

    def view(
        self, policy: LoadedPolicy, scanner: Scanner, calibration: Calibration, counter: TokenCounter | None
    ) -> RequestView:
        """Measure the request as the gateway does, received at second 0.

        Raises:
            TidegateError: A header or the body cannot be read.
        """
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = parse_chat(orjson.dumps(self.body))
        parts = tuple(request.text_parts())
        size = measure(request, parts, calibration)
        if counter is not None:
            size = exact(request, parts, size, counter)
        cap = request.output_cap if request.output_cap is not None else policy.policy.defaults.max_tokens
        caller = self.caller
        return RequestView(
            task=self.assume.task,
            model=request.model,
            stream=request.stream,
            needs=request.needs,
            label=self._label(policy, headers, scanner.scan(parts)),
            deadline=parse_deadline(headers, received_at=0.0, defaults=policy.deadline_defaults),
            size=self._size(size),
            output_cap=cap,
            cap_is_own=request.output_cap is not None,
            tenant=Tenant(caller.tenant, frozenset(caller.roles), caller.residency),
            hints=parse_hints(headers),
        )

    def _label(self, policy: LoadedPolicy, headers: Mapping[str, str], scan: ScanResult) -> Label:
        assumed = tuple(Finding(f"assumed {tag}", tag, "", 0, 0, "assumed") for tag in self.assume.findings)
        scan = replace(scan, findings=(*scan.findings, *assumed), causes=scan.causes | frozenset(self.assume.causes))
        rules = policy.label_rules.with_causes(self.caller.uninspected)
        return label_of(rules, declared=parse_label_headers(headers), key=NOTHING, taint=NOTHING, scan=scan)

    def _size(self, size: Size) -> Size:
        tokens, body_bytes = self.assume.tokens, self.assume.body_bytes
        counted = size.tokens if tokens is None else TokenInterval(tokens, tokens, tokens)
        return replace(size, tokens=counted, body_bytes=size.body_bytes if body_bytes is None else body_bytes)
