"""What may go out through the door. It can be made only here, from a request, its splices and a transform."""

from __future__ import annotations

from collections.abc import Mapping

from inference_protocol.json_body import splice
from inference_protocol.request import InferenceRequest
from routing_policies.verdict import Transform

# Only a caller holding this object can construct an OutboundBody, and only this module holds it.
_SEAL = object()
# The only top-level values the gateway itself sets. None of them holds text of the caller, so the label stays as it is.
SPLICED_KEYS = frozenset({"model", "stream_options", "cache_salt"})


class OutboundBody:
    """Bytes that were made from a request under a transform, and from nothing else.

    Attributes:
        content: What is sent.
        transform: What was done to the caller's text; the door compares it with the verdict's.
    """

    __slots__ = ("content", "transform")

    def __init__(self, seal: object, content: bytes, transform: Transform) -> None:
        """Only `outbound_body` calls this."""
        if seal is not _SEAL:
            raise TypeError("An OutboundBody is made by gateway.egress.body.outbound_body alone.")
        self.content = content
        self.transform = transform


def outbound_body(request: InferenceRequest, splices: Mapping[str, bytes | None], transform: Transform) -> OutboundBody:
    """Make the body of an attempt: the request's own bytes with top-level values spliced at their offsets.

    Raises:
        ValueError: A splice outside `SPLICED_KEYS`, or a transform nobody has written.
    """
    unknown = splices.keys() - SPLICED_KEYS
    if unknown:
        raise ValueError(f"The gateway does not set {sorted(unknown)} in a caller's body.")
    if transform is not Transform.NONE:
        raise ValueError(f"No transform {transform.value!r} exists.")
    return OutboundBody(_SEAL, splice(request.raw, request.tree, splices), transform)
