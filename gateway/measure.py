"""Step 3 of the way: from a parsed request and its headers to what the policy sees. Every string is read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gateway.identity import Principal
from gateway.off_loop import COUNT_BYTES, READ_BYTES, off_loop_if_large
from gateway.state.taint import StoreUnreadable, Taints
from inference_protocol.request import InferenceRequest
from inference_protocol.text_parts import TextPart, UninspectableCause
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.signals.deadline import parse_deadline
from routing_policies.signals.hints import parse_hints
from routing_policies.signals.label import NOTHING, label_of, parse_label_headers
from routing_policies.signals.scanner import Scanner, ScanResult
from routing_policies.signals.size import Calibration, Size, TokenCounter, exact, measure
from routing_policies.view import RequestView


@dataclass(frozen=True, slots=True)
class Measured:
    """What a request measures.

    Attributes:
        view: What the policy sees.
        parts: Every string of the body.
    """

    view: RequestView
    parts: tuple[TextPart, ...]


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
        policy: LoadedPolicy,
        received_at: float,
    ) -> Measured:
        """Measure label, deadline and size, and read the hints.

        Raises:
            InvalidHeader: A label or time header cannot be read.
        """
        declared = parse_label_headers(headers)
        deadline = parse_deadline(headers, received_at=received_at, defaults=policy.deadline_defaults)
        parts, scan, size = await off_loop_if_large(len(request.raw), READ_BYTES, self._read, request)
        try:
            taint = await self._taints.recall(request, principal.tenant.id)
        except StoreUnreadable:
            taint = NOTHING
            scan = replace(scan, causes=scan.causes | {UninspectableCause.HISTORY})
        rules = policy.label_rules.with_causes(principal.uninspected)
        label = label_of(rules, declared=declared, key=principal.key_label, taint=taint, scan=scan)
        cap = request.output_cap if request.output_cap is not None else policy.policy.defaults.max_tokens
        view = RequestView(
            task=request.task,
            model=request.model,
            stream=request.stream,
            needs=request.needs,
            label=label,
            deadline=deadline,
            size=size,
            output_cap=cap,
            cap_is_own=request.output_cap is not None,
            tenant=principal.tenant,
            hints=parse_hints(headers),
        )
        return Measured(view, parts)

    async def counted(self, request: InferenceRequest, measured: Measured) -> RequestView:
        """Return the view with its tokens counted exactly, where there is a tokenizer to count with."""
        view = measured.view
        if self._counter is None:
            return view
        size = await off_loop_if_large(
            len(request.raw), COUNT_BYTES, exact, request, measured.parts, view.size, self._counter
        )
        return replace(view, size=size)

    def _read(self, request: InferenceRequest) -> tuple[tuple[TextPart, ...], ScanResult, Size]:
        parts = tuple(request.text_parts())
        return parts, self._scanner.scan(parts), measure(request, parts, self._calibration)
