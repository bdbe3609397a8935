"""Under `tidegate up` every line of a log of JSON is JSON, whoever wrote it."""

from __future__ import annotations

import logging

import pytest

from gateway.cli.marked_lines import say_as_json
from gateway.supervise import OWN_NAME


def test_what_a_program_wrote_as_json_stands_as_it_is_and_all_else_becomes_an_event(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    say_as_json("edge", '{"message":"Ready"}')
    say_as_json("edge", "a native library's own words")
    say_as_json(OWN_NAME, "edge ended; it is started again in 0.5 s.")
    assert capsys.readouterr().err.splitlines()[:1] == ['{"message":"Ready"}']
    assert caplog.messages == [
        "edge: a native library's own words",
        "tidegate: edge ended; it is started again in 0.5 s.",
    ]
