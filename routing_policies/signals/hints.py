"""What a caller tells of its own device. A hint is no contract: one that cannot be read is left out, and that is noted.

What is read, and where it comes from:

    save-data          `on`                              the Save-Data hint that browsers and mobile clients send
    x-client-network   a connection type of the Network Information API, `;metered` where volume costs
    x-client-battery   a percentage, `;charging` on mains
    ect                the effective connection type, a network client hint: `slow-2g`, `2g`, `3g`, `4g`

A caller may send anything here, or nothing. So only preferences look at it, and no label is ever lowered by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from inference_protocol import headers


class Network(StrEnum):
    """The connection types of the Network Information API."""

    WIFI = "wifi"
    CELLULAR = "cellular"
    ETHERNET = "ethernet"
    BLUETOOTH = "bluetooth"
    WIMAX = "wimax"
    MIXED = "mixed"
    OTHER = "other"
    NONE = "none"
    UNKNOWN = "unknown"


class EffectiveType(StrEnum):
    """The effective connection types of the Network Information API: round trips and rate taken together."""

    SLOW_2G = "slow-2g"
    IS_2G = "2g"
    IS_3G = "3g"
    IS_4G = "4g"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Hints:
    """The hints of one request; what a caller does not tell is as in the defaults.

    Attributes:
        metered: Whether its link costs by volume.
        battery_percent: 0 to 100, or `None` where it does not tell.
        unreadable: Headers that were left out since they could not be read.
    """

    save_data: bool = False
    network: Network = Network.UNKNOWN
    metered: bool = False
    effective_type: EffectiveType = EffectiveType.UNKNOWN
    battery_percent: float | None = None
    charging: bool = False
    unreadable: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, for a person. Never the value itself."""
        return tuple(f"{name}: could not be read, so the hint was left out" for name in self.unreadable)


NO_HINTS = Hints()

_PERCENT = re.compile(r"(?:100(?:\.0{1,3})?|[0-9]{1,2}(?:\.[0-9]{1,3})?)")


def parse_hints(fields: Mapping[str, str]) -> Hints:
    """Read the hints among the headers of a request, by lower-case name. Never raises: see `Hints.unreadable`."""
    if fields.keys().isdisjoint(_READERS):
        return NO_HINTS
    found: dict[str, Any] = {}
    unreadable: list[str] = []
    for name, read in _READERS.items():
        value = fields.get(name)
        if value is None:
            continue
        try:
            found |= read([word.strip().lower() for word in value.split(";")])
        except ValueError:
            unreadable.append(name)
    return Hints(**found, unreadable=tuple(unreadable))


def _save_data(words: list[str]) -> dict[str, Any]:
    """`on`, beside which parameters may stand that mean nothing yet; all else, such as `off`, is no."""
    return {"save_data": words[0] == "on"}


def _network(words: list[str]) -> dict[str, Any]:
    types, metered = _without("metered", words)
    if len(types) > 1:
        raise ValueError("two connection types")
    return {"metered": metered, **({"network": Network(types[0])} if types else {})}


def _battery(words: list[str]) -> dict[str, Any]:
    amounts, charging = _without("charging", words)
    if len(amounts) != 1 or _PERCENT.fullmatch(amounts[0]) is None:
        raise ValueError("not one percentage")
    return {"battery_percent": float(amounts[0]), "charging": charging}


def _effective_type(words: list[str]) -> dict[str, Any]:
    return {"effective_type": EffectiveType(";".join(words))}


def _without(flag: str, words: Iterable[str]) -> tuple[list[str], bool]:
    """The words that are not a flag, and whether that stands among them."""
    held = list(words)
    return [word for word in held if word != flag], flag in held


_READERS: Mapping[str, Callable[[list[str]], dict[str, Any]]] = {
    headers.SAVE_DATA: _save_data,
    headers.CLIENT_NETWORK: _network,
    headers.CLIENT_BATTERY: _battery,
    headers.EFFECTIVE_TYPE: _effective_type,
}
