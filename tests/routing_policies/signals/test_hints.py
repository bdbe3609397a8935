from __future__ import annotations

import pytest

from inference_protocol import headers
from routing_policies.signals.hints import NO_HINTS, EffectiveType, Hints, Network, parse_hints


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, NO_HINTS),
        ({"user-agent": "x"}, NO_HINTS),
        ({"save-data": "on"}, Hints(save_data=True)),
        ({"save-data": "ON; later"}, Hints(save_data=True)),
        ({"save-data": "off"}, NO_HINTS),
        ({"x-client-network": "wifi"}, Hints(network=Network.WIFI)),
        ({"x-client-network": "cellular;metered"}, Hints(network=Network.CELLULAR, metered=True)),
        ({"x-client-network": "Metered ; Cellular"}, Hints(network=Network.CELLULAR, metered=True)),
        ({"x-client-network": "metered"}, Hints(metered=True)),
        ({"x-client-battery": "17"}, Hints(battery_percent=17.0)),
        ({"x-client-battery": "100;charging"}, Hints(battery_percent=100.0, charging=True)),
        ({"x-client-battery": "0.5"}, Hints(battery_percent=0.5)),
        ({"ect": "slow-2g"}, Hints(effective_type=EffectiveType.SLOW_2G)),
    ],
)
def test_a_hint_is_read_as_platforms_send_it(fields: dict[str, str], expected: Hints) -> None:
    assert parse_hints(fields) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-client-network", "carrier pigeon"),
        ("x-client-network", "wifi;cellular"),
        ("x-client-network", ""),
        ("x-client-network", "wifi, wifi"),
        ("x-client-battery", "full"),
        ("x-client-battery", "101"),
        ("x-client-battery", "-1"),
        ("x-client-battery", "17%"),
        ("x-client-battery", "charging"),
        ("x-client-battery", "9" * 5000),
        ("ect", "5g"),
        ("ect", "4g;3g"),
    ],
)
def test_a_hint_that_cannot_be_read_is_left_out_by_its_name_alone_and_hurts_no_other(name: str, value: str) -> None:
    found = parse_hints({name: value, "save-data": "on"})
    assert found == Hints(save_data=True, unreadable=(name,))
    assert found.notes == (f"{name}: could not be read, so the hint was left out",)


def test_every_hint_header_is_among_those_a_caller_may_send() -> None:
    every = (headers.SAVE_DATA, headers.CLIENT_NETWORK, headers.CLIENT_BATTERY, headers.EFFECTIVE_TYPE)
    assert not any(name.startswith(headers.OWN_PREFIX) for name in every)
