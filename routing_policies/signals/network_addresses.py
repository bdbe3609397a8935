"""Which IP addresses may lead to somebody: global ones that are no version number, network or public resolver."""

from __future__ import annotations

import ipaddress
import re

from routing_policies.signals.detector import Candidate

_VERSION_WORDS = re.compile(rb"(?i)\b(?:v|ver|version|release|build|firmware|oid|section|chapter)[ .:=-]{0,3}\Z")
_PRIVATE_NETWORKS = ("10.", "127.", "192.168.")  # the commonest ones by far, so they are told from the text
_PUBLIC_RESOLVERS = frozenset(
    "8.8.8.8 8.8.4.4 1.1.1.1 1.0.0.1 9.9.9.9 149.112.112.112 208.67.222.222 208.67.220.220 "
    "2001:4860:4860::8888 2001:4860:4860::8844 2606:4700:4700::1111 2606:4700:4700::1001 2620:fe::fe".split()
)


def is_somebodys_ipv4(candidate: Candidate) -> bool:
    """Accept a dotted quad that is an address, and not one for documents, networks or versions."""
    value = candidate.value
    if value.startswith(_PRIVATE_NETWORKS):
        return False
    numbers = [int(number) for number in value.split(".")]
    if max(numbers) > 255 or max(numbers) < 20 or numbers[3] == 0:
        return False  # no address, one that reads as a version or a section, a network
    if candidate.is_inside_longer_token() or candidate.follows(_VERSION_WORDS):
        return False
    if re.match(rb"/[0-9]", candidate.after) or re.search(rb"[0-9A-Za-z]/\Z", candidate.before):
        return False  # a network, or a product's version
    return _is_somebodys(".".join(map(str, numbers)))


def is_somebodys_ipv6(candidate: Candidate) -> bool:
    """Accept a global IPv6 address; `::` between names and hardware addresses are none."""
    value = candidate.value
    groups = value.split(":")
    if candidate.is_inside_longer_token(b":.-") or candidate.after[:1] == b"/":
        return False
    if "::" in value and re.match(r"[23][0-9A-Fa-f]{3}:", value) is None:
        return False  # outside global unicast; also what C++ and Rust write between names
    return max(map(len, groups)) > 2 and _is_somebodys(value)


def _is_somebodys(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return parsed.is_global and not parsed.is_multicast and str(parsed) not in _PUBLIC_RESOLVERS
