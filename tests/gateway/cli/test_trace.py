import json
import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from gateway.cli.trace import trace
from tests.support.traced_request import REQUEST_ID, write_traced_request


def _run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(trace)
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "80", "TIDEGATE_STATE_DIR": ""})


def test_the_last_request_is_shown_with_its_reasons_within_80_columns(tmp_path: Path) -> None:
    trace_id = write_traced_request(tmp_path)
    result = _run("--state-dir", str(tmp_path))
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert max(map(len, lines)) <= 80
    head = {line[:14].strip(): line[14:].strip() for line in lines[: lines.index("")]}
    assert head["request"] == REQUEST_ID
    assert head["trace"] == trace_id
    assert head["outcome"] == "ok from edge in 312.4 ms"
    assert head["decision"] == "cloud 0.81 > edge 0.74  (highest-score)"
    assert head["label"] == "internal  pii  email x2"
    assert head["scores"] == "latency 0.31  privacy 0.33  size 0.04"
    assert head["not gpu-pool"] == "does not meet the requirement (eu-only)"


def test_the_waterfall_names_program_span_start_and_duration(tmp_path: Path) -> None:
    write_traced_request(tmp_path)
    lines = _run(REQUEST_ID, "--state-dir", str(tmp_path)).output.splitlines()
    rows = [line.rstrip() for line in lines[lines.index("") + 2 :]]
    named = [(row[:7].strip(), row[9:37].rstrip()) for row in rows]
    assert named == [
        ("gateway", "POST /v1/chat/completions"),
        ("gateway", "  parse"),
        ("gateway", "  route balanced"),
        ("gateway", "    scan"),
        ("gateway", "    decide"),
        ("gateway", "  record"),
        ("gateway", "  chat -> cloud: upstream_cut"[:28]),
        ("gateway", "  chat -> edge"),
        ("edge", "    POST /v1/chat/completions"[:28]),
        ("edge", "      queue"),
        ("edge", "      prefill"),
        ("edge", "      decode"),
        ("gateway", "  relay"),
    ]
    decode = rows[11].split()
    assert decode[2:4] == ["147.5", "162.8"]
    assert set(decode[4]) <= set("█▏▎▍▌▋▊▉")


def test_json_has_the_records_and_the_rows(tmp_path: Path) -> None:
    trace_id = write_traced_request(tmp_path)
    told = json.loads(_run(REQUEST_ID, "--json", "--state-dir", str(tmp_path)).output)
    assert (told["request_id"], told["trace_id"]) == (REQUEST_ID, trace_id)
    assert told["outcome"]["target"] == "edge"
    assert told["decision"]["eligible"][0]["target"] == "cloud"
    assert told["rows"][0] == {
        "service": "gateway",
        "name": "POST /v1/chat/completions",
        "depth": 0,
        "start_ms": 0.0,
        "duration_ms": pytest.approx(312.4),
        "is_part": False,
        "is_error": False,
    }


def test_a_wrong_state_folder_is_named_with_the_way_out(tmp_path: Path) -> None:
    result = _run("--state-dir", str(tmp_path / "elsewhere"))
    assert result.exit_code == 1
    assert str(tmp_path / "elsewhere") in result.output
    assert "TIDEGATE_STATE_DIR" in result.output


def test_an_unknown_id_is_told_apart_from_an_empty_folder(tmp_path: Path) -> None:
    write_traced_request(tmp_path)
    result = _run("req-nobody", "--state-dir", str(tmp_path))
    assert result.exit_code == 1
    assert "req-nobody" in result.output
    assert "x-request-id" in result.output


def test_without_spans_the_records_are_shown_and_their_lack_is_said(tmp_path: Path) -> None:
    write_traced_request(tmp_path)
    shutil.rmtree(tmp_path / "traces")
    result = _run(REQUEST_ID, "--state-dir", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "ok from edge" in result.output
    assert "No spans" in result.output


def test_a_target_that_keeps_its_own_traces_is_named(tmp_path: Path) -> None:
    write_traced_request(tmp_path)
    (tmp_path / "traces" / "edge_runtime.jsonl").unlink()
    assert "edge has no spans here" in _run(REQUEST_ID, "--state-dir", str(tmp_path)).output
