"""What may go out through the door. It can be made only here, from a request, its splices and a transform."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gateway.egress.pseudonyms import Originals, Pseudonymizer
from inference_protocol.json_body import splice
from inference_protocol.request import InferenceRequest
from routing_policies.verdict import Transform

# Only a caller holding this object can construct an OutboundBody, and only this module holds it.
_SEAL = object()
# The only top-level values the gateway itself sets. None of them holds text of the caller, so the label stays as it is.
SPLICED_KEYS = frozenset({"model", "stream_options", "cache_salt", "deferrable"})

Splices = Mapping[str, bytes | None]


class OutboundBody:
    """Bytes that were made from a request under a transform, and from nothing else.

    Attributes:
        content: What is sent.
        transform: What was done to the caller's text; the door compares it with the verdict's.
        replaced: Tags of the findings that tokens stand for.
        originals: Token to value, to be put back in the answer. It leaves with nothing.
    """

    __slots__ = ("content", "originals", "replaced", "transform")

    def __init__(
        self,
        seal: object,
        content: bytes,
        *,
        replaced: frozenset[str] = frozenset(),
        originals: Originals | None = None,
    ) -> None:
        """Only the two functions below call this."""
        if seal is not _SEAL:
            raise TypeError("An OutboundBody is made by the functions of gateway.egress.body alone.")
        self.content = content
        self.replaced = replaced
        self.originals: Originals = originals or {}
        self.transform = Transform.PSEUDONYMIZE if replaced else Transform.NONE


def outbound_body(request: InferenceRequest, splices: Splices) -> OutboundBody:
    """Make the body of an attempt: the request's own bytes with top-level values spliced at their offsets.

    Raises:
        ValueError: A splice outside `SPLICED_KEYS`.
    """
    return OutboundBody(_SEAL, _spliced(request, splices))


def pseudonymized_body(
    request: InferenceRequest, splices: Splices, pseudonymizer: Pseudonymizer, *, tags: Collection[str], tenant: str
) -> OutboundBody:
    """Make the body of an attempt in which tokens stand for the findings of some tags.

    Raises:
        EgressRefused: Not every such finding could be replaced.
        ValueError: A splice outside `SPLICED_KEYS`.
    """
    found = pseudonymizer.replace(request, tags, tenant)
    return OutboundBody(_SEAL, _spliced(found.request, splices), replaced=frozenset(tags), originals=found.originals)


def _spliced(request: InferenceRequest, splices: Splices) -> bytes:
    unknown = splices.keys() - SPLICED_KEYS
    if unknown:
        raise ValueError(f"The gateway does not set {sorted(unknown)} in a caller's body.")
    return splice(request.raw, request.tree, splices)
