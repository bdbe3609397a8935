"""What goes beside the caller's bytes: the few values that are ours to set, in the body and in the headers."""

from __future__ import annotations

import functools
import hashlib
import hmac
from collections.abc import Callable, Mapping
from urllib.parse import quote

import orjson
from opentelemetry.trace import Span

import observability
from gateway.egress.body import outbound_body, pseudonymized_body
from gateway.egress.door import Permit
from gateway.egress.pseudonyms import Pseudonymizer
from gateway.exchange import Decided, Exchange
from gateway.off_loop import COUNT_BYTES, READ_BYTES, off_loop_if_large
from gateway.target_settings import TargetProtocol
from gateway.targets.target import Target
from inference_protocol import headers, paths
from inference_protocol.errors import EgressRefused
from inference_protocol.open_inference.infer_answer import BINARY_TYPE
from inference_protocol.openai_body import DROPPED_FIELDS
from inference_protocol.request import InferenceRequest, Task
from routing_policies.policy.model import Late
from routing_policies.signals.label import DataClass
from routing_policies.verdict import Transform

_PATHS: Mapping[Task, str] = {
    Task.CHAT: paths.CHAT_COMPLETIONS,
    Task.COMPLETION: paths.COMPLETIONS,
    Task.EMBEDDING: paths.EMBEDDINGS,
}
_USAGE_WANTED = orjson.dumps({"include_usage": True})


class Outbound:
    """Builds permits and headers of attempts."""

    def __init__(
        self,
        salt_key: bytes,
        pseudonymizer: Pseudonymizer,
        *,
        clock: Callable[[], float],
        keeps_prefixes: DataClass | None = None,
    ) -> None:
        """Set up.

        Args:
            salt_key: Key of the HMAC that keeps tenants' prefix caches apart.
            pseudonymizer: Replaces values where a verdict says so.
            clock: Monotonic seconds.
            keeps_prefixes: The highest class of requests of which our runtimes may keep something on the disk.
        """
        self._pseudonymizer = pseudonymizer
        self._salt = functools.lru_cache(maxsize=4096)(functools.partial(_salt, salt_key))
        self._clock = clock
        self._keeps_prefixes = keeps_prefixes

    async def permit(self, decided: Decided, target: Target) -> Permit:
        """Make the body for a target and the permit that the door asks for.

        Raises:
            EgressRefused: The verdict does not name the target, or values could not be replaced as it says.
        """
        transform = next((e.transform for e in decided.verdict.eligible if e.target == target.name), None)
        if transform is None:
            raise EgressRefused(f"The verdict does not name {target.name!r}.")
        splices = self._splices(decided, target)
        size = len(decided.request.raw)
        if transform is Transform.NONE:
            body = await off_loop_if_large(size, READ_BYTES, outbound_body, decided.request, splices)
        else:
            body = await off_loop_if_large(
                size,
                COUNT_BYTES,
                pseudonymized_body,
                decided.request,
                splices,
                self._pseudonymizer,
                tags=decided.policy.policy.targets[target.name].pseudonymize,
                tenant=decided.view.tenant.id,
            )
        return Permit(body, decided.verdict, decided.policy)

    def headers(self, exchange: Exchange, target: Target, span: Span) -> dict[str, str]:
        """The headers of an attempt: an allow-list of our own making, nothing of the caller's passes through."""
        decided = exchange.decided
        out = {
            "content-type": "application/json",
            "accept": "text/event-stream" if decided.request.stream else "application/json",
            "accept-encoding": "identity",
            headers.REQUEST_ID: exchange.request_id,
        }
        if decided.request.tensors is not None:
            out |= {"content-type": BINARY_TYPE, "accept": "*/*"}
            out[headers.INFERENCE_JSON_LENGTH] = str(decided.request.tensors.json_bytes)
        if target.settings.sends_trace:
            out[headers.TRACEPARENT] = observability.traceparent(span)
        remaining = decided.view.deadline.remaining_total_ms(self._clock())
        ours = target.settings.protocol is TargetProtocol.TIDEGATE
        if ours and remaining is not None:
            out[headers.LATENCY_BUDGET_MS] = str(max(1, int(remaining)))
            if decided.policy.policy.defaults.late is Late.TRUNCATE:
                out[headers.LATE] = Late.TRUNCATE.value
        if ours and self._keeps_prefixes is not None and decided.verdict.label.level <= self._keeps_prefixes:
            out[headers.KEEP] = "prefix"
        return out

    def _splices(self, decided: Decided, target: Target) -> dict[str, bytes | None]:
        request = decided.request
        if request.tensors is not None:
            return {}  # its model stands in the path, and whatever else it holds is of the caller and the model
        splices: dict[str, bytes | None] = {key: None for key in DROPPED_FIELDS if key in request.tree}
        served = target.settings.models[request.model]
        if request.tree["model"] != served:
            splices["model"] = orjson.dumps(served)
        if request.stream and not request.wants_usage:
            splices["stream_options"] = _USAGE_WANTED  # for our account; the caller does not see the frame
        if target.settings.protocol is TargetProtocol.TIDEGATE:
            splices["cache_salt"] = self._salt(decided.view.tenant.id)
        return splices


def outbound_path(request: InferenceRequest, target: Target) -> str:
    """Return where a request goes at a target."""
    if request.tensors is None:
        return _PATHS[request.task]
    served = quote(target.settings.models[request.model], safe="")
    version = request.tensors.version
    if version is None:
        return paths.MODEL_INFER.format(model=served)
    return paths.VERSION_INFER.format(model=served, version=version)


def _salt(key: bytes, tenant: str) -> bytes:
    """The JSON text of a tenant's salt: the same for all its requests, and no other tenant's."""
    return orjson.dumps(hmac.new(key, tenant.encode(), hashlib.sha256).hexdigest()[:32])
