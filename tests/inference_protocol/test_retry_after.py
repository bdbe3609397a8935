from __future__ import annotations

from email.utils import formatdate

import pytest

from inference_protocol.retry_after import read_retry_after_s

NOW_S = 1_700_000_000.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 0 "}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        ({"retry-after": formatdate(NOW_S + 30, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(NOW_S - 30, usegmt=True)}, 0.0),
        ({}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e9"}, None),
        ({"retry-after": "next Tuesday"}, None),
        ({"retry-after": "9" * 400}, None),
    ],
)
def test_seconds_milliseconds_and_dates_are_read_and_nothing_else(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert read_retry_after_s(headers, wall_s=NOW_S) == seconds
