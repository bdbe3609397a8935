"""Step 3 of the way: from a parsed request and its headers to what the policy sees. Every string is read once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gateway.identity import Principal
from gateway.state.taint import StoreUnreadable, Taints
from inference_protocol.request import InferenceRequest
from inference_protocol.text_parts import TextPart, UninspectableCause
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.signals.deadline import parse_deadline
from routing_policies.signals.label import NOTHING, label_of, parse_label_headers
from routing_policies.signals.scanner import Scanner, ScanResult
from routing_policies.signals.size import Calibration, TokenCounter, exact, measure
from routing_policies.view import RequestView

OFF_LOOP_SCAN_BYTES = 64 << 10
OFF_LOOP_COUNT_BYTES = 16 << 10


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

    async def view(
        self,
        request: InferenceRequest,
        headers: Mapping[str, str],
        principal: Principal,
        policy: LoadedPolicy,
        received_at: float,
    ) -> RequestView:
        """Measure label, deadline and size.

        Raises:
            InvalidHeader: A label or time header cannot be read.
        """
        declared = parse_label_headers(headers)
        deadline = parse_deadline(headers, received_at=received_at, defaults=policy.deadline_defaults)
        parts = tuple(request.text_parts())
        scan = await self._scan(parts, len(request.raw))
        try:
            taint = await self._taints.recall(request, principal.tenant.id)
        except StoreUnreadable:
            taint = NOTHING
            scan = replace(scan, causes=scan.causes | {UninspectableCause.HISTORY})
        rules = policy.label_rules.with_causes(principal.uninspected)
        label = label_of(rules, declared=declared, key=principal.key_label, taint=taint, scan=scan)
        cap = request.output_cap if request.output_cap is not None else policy.policy.defaults.max_tokens
        return RequestView(
            task=request.task,
            model=request.model,
            stream=request.stream,
            needs=request.needs,
            label=label,
            deadline=deadline,
            size=measure(request, parts, self._calibration),
            output_cap=cap,
            cap_is_own=request.output_cap is not None,
            tenant=principal.tenant,
        )

    @property
    def counts_exactly(self) -> bool:
        """Whether there is a tokenizer to count with."""
        return self._counter is not None

    async def counted(self, request: InferenceRequest, view: RequestView) -> RequestView:
        """Return the view with its tokens counted exactly, where there is a tokenizer to count with."""
        if self._counter is None:
            return view
        if len(request.raw) > OFF_LOOP_COUNT_BYTES:
            size = await asyncio.to_thread(exact, request, view.size, self._counter)
        else:
            size = exact(request, view.size, self._counter)
        return replace(view, size=size)

    async def _scan(self, parts: Sequence[TextPart], length: int) -> ScanResult:
        if length > OFF_LOOP_SCAN_BYTES:
            return await asyncio.to_thread(self._scanner.scan, parts)
        return self._scanner.scan(parts)
