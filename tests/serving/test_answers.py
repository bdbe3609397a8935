from __future__ import annotations

import orjson
import pytest
from starlette.exceptions import HTTPException

from inference_protocol.errors import MalformedBody, Overloaded, TidegateError, error_classes
from inference_protocol.json_body import parse_object
from serving.answers import error_body, error_headers, refusal_of


@pytest.mark.parametrize("error_class", list(error_classes()))
def test_an_error_is_one_line_of_json_in_openais_shape(error_class: type[TidegateError]) -> None:
    body = error_body(error_class("Line\nbreak"), "req-1")
    assert b"\n" not in body  # so that it can be an event's data
    assert orjson.loads(body)["error"]["request_id"] == "req-1"


def test_a_body_whose_key_is_half_a_character_still_gets_its_error() -> None:
    with pytest.raises(MalformedBody) as caught:
        parse_object(b'{"\\ud83d": 1, "\\ud83d": 2}')
    assert orjson.loads(error_body(caught.value, None))["error"]["code"] == "malformed_body"


@pytest.mark.parametrize(("wait_s", "told"), [(0.0, "1"), (0.2, "1"), (1.0, "1"), (1.1, "2"), (5.0, "5")])
def test_the_wait_is_told_in_whole_seconds_and_never_too_short(wait_s: float, told: str) -> None:
    assert error_headers(Overloaded("Full.", retry_after_s=wait_s)) == {"retry-after": told}


@pytest.mark.parametrize(("status", "code"), [(404, "not_found"), (405, "method_not_allowed"), (418, "internal_error")])
def test_what_the_router_refuses_is_an_error_of_the_tree(status: int, code: str) -> None:
    assert refusal_of(HTTPException(status)).code == code
