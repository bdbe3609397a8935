import io

from rich.console import Console

from gateway.cli.engine_trace import picture, runs
from inference_protocol.engine_steps import EngineStep, StepKind


def step(kind, at_ms, rows, slot=0, tokens=1, waiting=0, accepted=0):
    return EngineStep(kind, 100 + at_ms / 1000, 2.0, tuple(rows), slot, tokens, accepted, waiting)


STEPS = [
    step(StepKind.READ, 0, ["one"], tokens=128, waiting=1),
    step(StepKind.READ, 2, ["one"], tokens=40, waiting=1),
    step(StepKind.READ, 4, ["two"], slot=1, tokens=30),
    step(StepKind.DECODE, 6, ["one"], tokens=1),
    step(StepKind.DECODE, 8, ["one", "two"], tokens=2),
    step(StepKind.DECODE, 10, ["one", "two"], tokens=2),
    step(StepKind.CHECK, 12, ["two"], tokens=5, accepted=3),
    step(StepKind.RESTORE, 14, ["three"], slot=2, tokens=64),
]


def test_steps_that_did_the_same_for_the_same_requests_are_one_line():
    assert [(run.what, run.duration_ms) for run in runs(STEPS)] == [
        ("read 168 of a prompt, 2 steps", 4.0),
        ("read 30 of a prompt", 2.0),
        ("generate for 1", 2.0),
        ("generate for 2, 2 steps", 4.0),
        ("check drafts, 3 of 4 right", 2.0),
        ("take 64 of a prompt from the disk", 2.0),
    ]


def test_the_picture_has_a_column_for_each_slot_and_a_letter_for_each_request():
    out = io.StringIO()
    picture(STEPS, Console(file=out, width=90))
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert lines[1:] == [
        "0.0 4.0 A·· read 168 of a prompt, 2 steps 1",
        "4.0 2.0 ·B· read 30 of a prompt",
        "6.0 2.0 A·· generate for 1",
        "8.0 4.0 AB· generate for 2, 2 steps",
        "12.0 2.0 B·· check drafts, 3 of 4 right",
        "14.0 2.0 ··C take 64 of a prompt from the disk",
        "",
        "A one",
        "B two",
        "C three",
    ]
