"""Step 3 of the way: from a parsed request and its headers to what the policy sees. Every string is read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gateway.off_loop import COUNT_BYTES, READ_BYTES, off_loop_if_large
from gateway.principal import Principal
from gateway.state.taint import StoreUnreadable, Taints
from inference_protocol.request import InferenceRequest
from inference_protocol.text_parts import TextPart, UninspectableCause
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.signals.deadline import parse_deadline
from routing_policies.signals.hints import Hints, parse_hints
from routing_policies.signals.label import NOTHING, Component, label_of, parse_label_headers
from routing_policies.signals.scanner import Scanner, ScanResult
from routing_policies.signals.size import Calibration, Size, TokenCounter, exact, measure
from routing_policies.view import RequestView


@dataclass(frozen=True, slots=True)
class Measured:
    """What a request measures, whatever the policy.

    Attributes:
        parts: Every string of the body.
        declared: What the caller says of it.
        taint: What earlier turns of the conversation were labelled.
    """

    request: InferenceRequest
    headers: Mapping[str, str]
    principal: Principal
    received_at: float
    parts: tuple[TextPart, ...]
    declared: Component
    taint: Component
    scan: ScanResult
    size: Size
    hints: Hints

    def also_tainted(self, taint: Component) -> Measured:
        """Return the same with what else earlier turns were labelled."""
        return self if taint == NOTHING else replace(self, taint=Component.join([self.taint, taint]))

    def view(self, policy: LoadedPolicy) -> RequestView:
        """Return what a policy sees, by its own classes and defaults.

        Raises:
            InvalidHeader: A time header cannot be read.
        """
        request, principal = self.request, self.principal
        rules = policy.label_rules.with_causes(principal.uninspected)
        cap = request.output_cap if request.output_cap is not None else policy.policy.defaults.max_tokens
        return RequestView(
            task=request.task,
            model=request.model,
            stream=request.stream,
            needs=request.needs,
            label=label_of(rules, declared=self.declared, key=principal.key_label, taint=self.taint, scan=self.scan),
            deadline=parse_deadline(self.headers, received_at=self.received_at, defaults=policy.deadline_defaults),
            size=self.size,
            output_cap=cap,
            cap_is_own=request.output_cap is not None,
            tenant=principal.tenant,
            hints=self.hints,
        )


class Measurer:
    """Measures requests with one scanner, one memory of labels and one tokenizer."""

    def __init__(
        self, scanner: Scanner, taints: Taints, calibration: Calibration, counter: TokenCounter | None
    ) -> None:
        """Set up.

        Args:
            scanner: Finds identifiers and secrets.
            taints: Knows how earlier turns were labelled.
            calibration: What texts usually come to in tokens.
            counter: Counts tokens exactly; `None` where no tokenizer is at hand, so that safe bounds decide.
        """
        self._scanner = scanner
        self._taints = taints
        self._calibration = calibration
        self._counter = counter

    async def measure(
        self,
        request: InferenceRequest,
        headers: Mapping[str, str],
        principal: Principal,
        received_at: float,
    ) -> Measured:
        """Read and scan the body once, recall what earlier turns were labelled, and read the headers.

        Raises:
            InvalidHeader: A label header cannot be read.
        """
        declared = parse_label_headers(headers)
        hints = parse_hints(headers)
        parts, scan, size = await off_loop_if_large(len(request.raw), READ_BYTES, self._read, request)
        try:
            taint = await self._taints.recall(request, principal.tenant.id)
        except StoreUnreadable:
            taint = NOTHING
            scan = replace(scan, causes=scan.causes | {UninspectableCause.HISTORY})
        return Measured(request, headers, principal, received_at, parts, declared, taint, scan, size, hints)

    async def counted(self, measured: Measured) -> Measured:
        """Return the same with its tokens counted exactly, where there is a tokenizer to count with."""
        if self._counter is None:
            return measured
        request, counter = measured.request, self._counter
        size = await off_loop_if_large(
            len(request.raw), COUNT_BYTES, exact, request, measured.parts, measured.size, counter
        )
        return replace(measured, size=size)

    def _read(self, request: InferenceRequest) -> tuple[tuple[TextPart, ...], ScanResult, Size]:
        parts = tuple(request.text_parts())
        return parts, self._scanner.scan(parts), measure(request, parts, self._calibration)
