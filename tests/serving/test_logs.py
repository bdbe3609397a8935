"""A line of the log is one event, for people or for machines, and holds nothing that an exception says."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable

import pytest
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, Span, SpanContext, TraceFlags

from serving.crashes import log_crash
from serving.logs import JsonLines, TextLines, in_trace

SECRET = "the grey heron stands in the reeds"
IN_A_REQUEST = NonRecordingSpan(SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1)))

# A place shows its line of code, so none may hold the words.
START = """
from serving.logs import set_up_logging
set_up_logging("json", "gateway")
words = " ".join(["the", "grey", "heron"])
"""
ENDS = "raise ValueError(words)"
ENDS_IN_A_THREAD = """
import threading
def work():
    raise ValueError(words)
thread = threading.Thread(target=work, name="worker")
thread.start()
thread.join()
"""
WARNS = "import warnings; warnings.warn('it is old', DeprecationWarning, stacklevel=1)"
ENDS_A_TASK = """
import asyncio
async def work():
    raise ValueError(words)
async def main():
    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    del task
asyncio.run(main())
"""


def written(formatter: logging.Formatter, tell: Callable[[logging.Logger], None]) -> list[str]:
    """What is logged, formatted."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(formatter.format(record))

    logger = logging.Logger("gateway.some_module")
    logger.addHandler(Kept())
    tell(logger)
    return lines


def crash(span: Span) -> Callable[[logging.Logger], None]:
    def tell(logger: logging.Logger) -> None:
        try:
            raise ValueError(SECRET)
        except ValueError as exc:
            log_crash(logger, "request req-1", exc, span)

    return tell


def test_an_event_is_one_line_of_json_whatever_it_says() -> None:
    [line] = written(JsonLines("gateway"), lambda logger: logger.warning('two\nlines and a "quote" of %s', "a tenant"))
    event = json.loads(line)
    assert "\n" not in line
    assert {name: event[name] for name in event if name != "time"} == {
        "level": "warning",
        "service": "gateway",
        "logger": "gateway.some_module",
        "message": 'two\nlines and a "quote" of a tenant',
    }
    assert event["time"].endswith("+00:00")


def test_what_is_about_a_request_names_its_trace() -> None:
    [line] = written(JsonLines("gateway"), crash(IN_A_REQUEST))
    event = json.loads(line)
    assert (event["trace_id"], event["span_id"]) == (f"{0xABC:032x}", f"{0xDEF:016x}")
    [line] = written(JsonLines("gateway"), crash(INVALID_SPAN))
    assert "trace_id" not in json.loads(line)
    assert in_trace(INVALID_SPAN) == {}


@pytest.mark.parametrize("formatter", [JsonLines("gateway"), TextLines("%(message)s")])
def test_an_exceptions_message_is_in_no_line(formatter: logging.Formatter) -> None:
    def tell(logger: logging.Logger) -> None:
        try:
            raise ValueError(SECRET)
        except ValueError:
            logger.exception("It failed")

    told = [*written(formatter, tell), *written(formatter, crash(IN_A_REQUEST))]
    for line in told:
        assert "ValueError" in line
        assert "test_logs.py" in line
        assert SECRET not in line


@pytest.mark.parametrize(
    ("program", "status", "said"),
    [
        (ENDS, 1, "ValueError"),
        (ENDS_IN_A_THREAD, 0, "worker"),
        (ENDS_A_TASK, 0, "in a task or a callback"),
        (WARNS, 0, "it is old"),
    ],
)
def test_whatever_goes_wrong_in_a_program_is_a_line_of_json_too(program: str, status: int, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", START + program], capture_output=True, text=True, check=False
    )
    [line] = done.stderr.splitlines()
    assert said in line
    assert json.loads(line)["service"] == "gateway"
    assert (done.returncode, "grey heron" in line) == (status, False)
