"""Addresses of the web, by the host that they name.

A domain says whose site is spoken of and seldom who speaks, and technical text is full of them. So it is noted and
raises nothing, unless a policy gives it a class. A host counts where a scheme or `www.` says that it is one: without,
`main.py`, `lib.rs` and `README.md` would be domains of Paraguay, Serbia and Moldova.
"""

from __future__ import annotations

from routing_policies.signals.detector import Candidate, Detector

# RFC 2606, RFC 6761, RFC 8375 and what networks call themselves: names that lead to nobody.
_RESERVED = frozenset("example test invalid localhost local internal lan home arpa onion svc cluster".split())
_FOR_DOCUMENTS = frozenset({"example.com", "example.net", "example.org"})


def _is_somebodys(candidate: Candidate) -> bool:
    labels = candidate.value.lower().rpartition("/")[2].split(".")
    if labels[-1] in _RESERVED or ".".join(labels[-2:]) in _FOR_DOCUMENTS:
        return False
    return all(0 < len(label) <= 63 and not label.startswith("-") and not label.endswith("-") for label in labels)


DOMAIN = Detector(
    "domain",
    "domain",
    r"(?i)\b(?:https?://|www\.)(?:[a-z0-9-]{1,63}\.){1,8}(?:[a-z]{2,24}|xn--[a-z0-9-]{2,59})\b",
    _is_somebodys,
)
