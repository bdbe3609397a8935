from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gateway.cli import banner
from gateway.cli.banner import Bearings, Readiness
from gateway.cli.marked_lines import MarkedLines
from gateway.supervise import OWN_NAME

BEARINGS = Bearings(
    base_url="http://127.0.0.1:8080",
    model="small",
    programs=(("edge", "ONNX Runtime"), ("gateway", "http://127.0.0.1:8080")),
    records_dir=Path("state/records"),
    traces_dir=Path("state/traces"),
)


def printed(text: Text) -> str:
    """What a narrow terminal shows."""
    output = io.StringIO()
    Console(file=output, width=40).print(text, soft_wrap=True)
    return output.getvalue()


def test_what_is_being_started_is_listed() -> None:
    assert printed(banner.starting(BEARINGS)).splitlines() == [
        *("Starting Tidegate", "  edge     ONNX Runtime", "  gateway  http://127.0.0.1:8080", "")
    ]


def test_progress_is_told_once_for_each_change() -> None:
    loading = {"edge": {"health": "starting"}, "cloud": {"health": "starting"}}
    before = Readiness.from_answer({"status": "starting", "targets": loading})
    after = Readiness.from_answer({"status": "ready", "targets": loading | {"edge": {"health": "up"}}})

    assert not before.ready
    assert after.ready
    assert printed(banner.progress(None, before, 0.3) or Text()) == "  0.3 s  edge starting, cloud starting\n"
    assert banner.progress(before, before, 0.6) is None
    assert printed(banner.progress(before, after, 2.1) or Text()) == "  2.1 s  edge up, cloud starting\n"


def test_the_curl_example_can_be_pasted_into_a_shell() -> None:
    text = printed(banner.ready(BEARINGS))
    command = text[text.index("curl -i") : text.index("\n\n", text.index("curl -i"))]

    words = shlex.split(command)
    body = json.loads(words[-1])

    assert words[2] == "http://127.0.0.1:8080/v1/chat/completions"
    assert body["model"] == "small"
    assert body["messages"] == [{"role": "user", "content": banner.QUESTION}]


def test_the_python_example_can_be_pasted_into_an_interpreter() -> None:
    text = printed(banner.ready(BEARINGS))
    code = text[text.index("from openai") : text.index("\n\n", text.index("from openai"))]

    compile(code, "example", "exec")
    assert 'base_url="http://127.0.0.1:8080/v1"' in code


def test_lines_are_marked_with_their_program_and_stay_whole() -> None:
    output = io.StringIO()
    lines = MarkedLines(Console(file=output, width=40), ["edge"])

    lines.say("edge", "x" * 80)
    lines.say(OWN_NAME, "[not] markup")

    assert output.getvalue() == f"edge     │ {'x' * 80}\ntidegate │ [not] markup\n"
