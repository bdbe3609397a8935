from __future__ import annotations

import re
from collections import Counter

import inference_protocol.errors as module
from inference_protocol.errors import Draining, InvalidField, Overloaded, TidegateError, error_classes


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    drawn: list[tuple[str, str, int]] = []
    above = ["TidegateError"]
    for indent, name, status in re.findall(r"^    ([│ ]*[├└]── )(\w+) +(\d{3})", module.__doc__ or "", re.MULTILINE):
        depth = len(indent) // 4
        above[depth:] = [name]
        drawn.append((above[depth - 1], name, int(status)))
    assert drawn == [(cls.__bases__[0].__name__, cls.__name__, cls.http_status) for cls in error_classes()]


def test_every_class_has_a_code_of_its_own() -> None:
    codes = Counter(cls.code for cls in error_classes())
    assert [code for code, times in codes.items() if times > 1] == []
    assert all("code" in vars(cls) for cls in error_classes())


def test_only_what_may_pass_by_itself_is_retryable() -> None:
    assert all(cls.retryable == (cls.http_status in {408, 409, 429, 502, 503, 504}) for cls in error_classes())


def test_an_error_body_is_shaped_as_openai_clients_expect() -> None:
    error = InvalidField("`model` must be a string.", param="model", details={"allowed": ["a"]})
    assert error.to_openai("r-1") == {
        "error": {
            "message": "`model` must be a string.",
            "type": "invalid_request_error",
            "param": "model",
            "code": "invalid_field",
            "request_id": "r-1",
            "details": {"allowed": ["a"]},
        }
    }


def test_an_error_before_there_is_a_request_id_leaves_it_out() -> None:
    body = InvalidField("`model` must be a string.").to_openai(None)
    assert set(body["error"]) == {"message", "type", "param", "code"}


def test_an_error_that_usually_has_a_reason_and_a_wait_says_them_unless_told_otherwise() -> None:
    assert (Overloaded("Full.").details, Overloaded("Full.").retry_after_s) == ({"reason": "rejected-saturated"}, 1.0)
    evicted = Draining("Ended.", retry_after_s=0.0, details={"reason": "evicted-shutting-down"})
    assert (evicted.details, evicted.retry_after_s) == ({"reason": "evicted-shutting-down"}, 0.0)
    assert Draining("Down.", details={"left": 3}).details == {"reason": "rejected-shutting-down", "left": 3}


def test_the_error_type_of_a_span_is_the_code() -> None:
    assert isinstance(Overloaded("x"), TidegateError)
    assert Overloaded("x").error_type == "overloaded"
