"""Taking a request's head in."""

from __future__ import annotations

from starlette.types import Scope

from inference_protocol import headers


def read_headers(scope: Scope) -> dict[str, str]:
    """Return the headers by lower-case name, without those that only we may set.

    A header that comes twice is joined by a comma, so that what wants one value refuses it instead of picking one.
    """
    found: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1")
        if name.startswith(headers.OWN_PREFIX):
            continue
        value = raw_value.decode("latin-1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
