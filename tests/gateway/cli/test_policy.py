"""The policy commands as an operator types them: what they print, and the status they end with."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner, Result

from gateway.cli.policy import app
from routing_policies.policy.loader import builtin_names, load_policy
from tests.support.recorded_traffic import recorded_traffic

GOOD = """\
apiVersion: tidegate/v1
name: site
defaults: {class: public}
targets:
  edge: {kind: edge, clearance: restricted}
  cloud: {kind: cloud, clearance: internal, tags_allowed: [phi]}
constraints:
  - {id: tools-stay, when: request.tools, deny: [cloud]}
"""
BROKEN = GOOD + "invariants:\n  - {id: phi-stays, when: '\"phi\" in label.tags', require: 'target.kind == \"edge\"'}\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path("site.yaml").write_text(GOOD, encoding="utf-8")
    Path("broken.yaml").write_text(BROKEN, encoding="utf-8")
    Path("typo.yaml").write_text(GOOD.replace("clearance: internal", "clearence: internal"), encoding="utf-8")
    lines = [orjson.dumps(record) for record in recorded_traffic(load_policy("balanced"), 50)]
    Path("records.jsonl").write_bytes(b"\n".join([*lines, b'{"kind": "deci']))


def run(*arguments: str, status: int = 0, given: str | None = None) -> Result:
    result = CliRunner().invoke(app, arguments, input=given)
    assert result.exit_code == status, result.output
    return result


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "typo.yaml"],
        ["test", "typo.yaml"],
        ["prove", "typo.yaml"],
        ["explain", "typo.yaml"],
        ["diff", "site.yaml", "typo.yaml"],
        ["matrix", "typo.yaml"],
        ["simulate", "--policy", "typo.yaml", "--records", "records.jsonl"],
    ],
)
def test_what_cannot_be_read_ends_with_2_and_its_place(arguments: list[str]) -> None:
    assert "typo.yaml:6:24: `targets.cloud.clearence`: unknown field" in run(*arguments, status=2).stderr


def test_check_says_what_a_start_would_and_warns(tmp_path: Path) -> None:
    assert run("check", "site.yaml").stdout.startswith("site: good (")
    found = run("check", "broken.yaml", status=1).stdout
    assert "broken.yaml:10:5: the invariant `phi-stays` does not hold: cloud may answer" in found
    Path("idle.yaml").write_text(GOOD + "  - {id: idle, when: label.level > RESTRICTED, deny: [cloud]}\n")
    assert "idle.yaml:9:5: warning: `idle` never fires" in run("check", "idle.yaml").stdout
    run("check", "idle.yaml", "--strict", status=1)
    found_json = json.loads(run("check", "broken.yaml", "--json", status=1).stdout)
    assert [(e["line"], e["column"]) for e in found_json["errors"]] == [(10, 5)]


def test_check_holds_the_targets_against_the_settings_that_are_named() -> None:
    Path("settings.yaml").write_text(
        "targets: {clout: {endpoints: ['http://127.0.0.1:9'], models: {m: m}}, cloud: null}"
    )
    found = run("check", "site.yaml", "--settings", "settings.yaml", status=1).stdout
    assert "site.yaml:6:3: no settings say how to reach the target `cloud` (did you mean `clout`?)" in found
    assert "The policy says nothing of the target `clout`, so nothing is sent there" in found
    assert "settings" not in run("check", "site.yaml").stdout


def test_a_bundle_is_looked_at_as_the_policy_in_it(tmp_path: Path) -> None:
    made = run("bundle", "site.yaml", "--version", "1", "--output", "site.bundle").stdout
    assert "sign it" in made
    run("keygen", "ada.key")
    assert "now with 1 signature\n" in run("sign", "site.bundle", "--key", "ada.key").stdout
    assert run("check", "site.bundle").stdout == run("check", "site.yaml").stdout
    assert "the same targets may answer" in run("diff", "site.yaml", "site.bundle").stdout
    Path("cut.bundle").write_bytes(Path("site.bundle").read_bytes()[:-20])
    assert "damaged or was cut off" in run("prove", "cut.bundle", status=2).stderr


def test_test_tells_failures_and_rules_that_no_test_touches() -> None:
    Path("site.yaml").write_text(GOOD + "tests:\n  - {name: a, expect: {eligible: [edge]}}\n", encoding="utf-8")
    found = run("test", "site.yaml", status=1).stdout
    assert "site.yaml:10:5: test `a` fails: expected eligible edge, got cloud, edge" in found
    assert "no test touches `tools-stay`" in found
    Path("site.yaml").write_text(GOOD + "tests:\n  - {name: a, expect: {eligible: [edge, cloud]}}\n", encoding="utf-8")
    assert json.loads(run("test", "site.yaml", "--json").stdout)["coverage"] == 0.0
    run("test", "site.yaml", "--coverage-min", "50", status=1)


def test_a_counterexample_goes_straight_into_explain() -> None:
    found = json.loads(run("prove", "broken.yaml", "--json", "--z3", status=1).stdout)
    (invariant,) = found["invariants"]
    assert (invariant["holds"], invariant["z3"], invariant["counterexample"]["target"]) == (False, False, "cloud")
    run("prove", "broken.yaml", "--save", "request.json", status=1)
    assert json.loads(Path("request.json").read_text()) == invariant["counterexample"]["request"]
    enforced = json.loads(run("explain", "broken.yaml", "--request", "request.json", "--json").stdout)
    assert enforced["targets"]["cloud"]["excluded"]["rule"] == "phi-stays"
    without = run("explain", "site.yaml", "--json", given=Path("request.json").read_text())
    assert "cloud" in json.loads(without.stdout)["order"]
    assert run("prove", "balanced").stdout == "confidential-stays: holds (4 cells)\n"


def test_a_proof_that_would_take_too_much_is_no_pass() -> None:
    assert "not proved: too many cells" in run("prove", "broken.yaml", "--max-cells", "1", status=1).stdout


def test_explain_takes_what_headers_cannot_say_and_refuses_what_it_does_not_know() -> None:
    request = {"assume": {"tokens": 5000, "causes": ["truncated"]}, "targets": {"edge": {"health": "down"}}}
    found = json.loads(run("explain", "balanced", "--json", given=json.dumps(request), status=1).stdout)
    assert found["target"] is None
    assert found["size"]["tokens"]["likely"] == 5000
    assert found["label"]["uninspected_causes"] == ["truncated"]
    assert "did you mean `headers`" in run("explain", "balanced", given='{"header": {}}', status=2).stderr
    assert "not JSON: EOF" in run("explain", "balanced", given='{"headers"', status=2).stderr
    assert (
        "x-data-class" in run("explain", "balanced", given='{"headers": {"x-data-class": "hidden"}}', status=2).stderr
    )


def test_diff_fails_only_where_it_is_asked_to_and_something_is_looser() -> None:
    run("diff", "balanced", "private-first", "--fail-on-looser")
    found = run("diff", "private-first", "balanced", "--fail-on-looser", status=1).stdout
    assert "looser: a request of which nobody says anything is public, and was confidential" in found
    run("diff", "private-first", "balanced")
    weighed = json.loads(run("diff", "site.yaml", "balanced", "--records", "records.jsonl", "--json").stdout)
    assert weighed["traffic"]["requests"] == 50
    assert {change["direction"] for change in weighed["changes"]} == {"looser", "stricter"}
    moves = {(each["before"], each["after"]) for each in weighed["asked_first"]}
    assert moves
    assert all(before != after for before, after in moves)
    assert all(each["requests"] is not None and each["example"]["body"] for each in weighed["asked_first"])


def test_simulate_reads_a_file_or_a_folder_and_passes_over_a_line_that_was_cut_off() -> None:
    found = json.loads(run("simulate", "--records", "records.jsonl", "--policy", "private-first", "--json").stdout)
    assert found["replayed"] == 50
    shown = run("simulate", "--records", ".", "--policy", "private-first").stdout
    assert "50 recorded requests" in shown
    assert "inside the budget" in shown
    run("simulate", "--records", "nowhere", "--policy", "balanced", status=2)


class _Page(HTMLParser):
    """Notes what a page loads, and that its tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attributes if name in {"src", "href"} and value]
        if tag not in {"meta"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_matrix_is_a_table_or_a_page_that_loads_nothing_and_escapes_what_it_shows() -> None:
    shown = run("matrix", "site.yaml").stdout
    assert "depends: tools-stay" in shown
    assert "no: clearance" in shown
    Path("odd.yaml").write_text(
        GOOD + "  - {id: odd, when: 'request.model == \"<script>\"', deny: [cloud]}\n", encoding="utf-8"
    )
    run("matrix", "odd.yaml", "--html", "matrix.html")
    page = Path("matrix.html").read_text(encoding="utf-8")
    parsed = _Page()
    parsed.feed(page)
    assert parsed.open == []
    assert set(parsed.loads) == {"#tools-stay", "#odd"}
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    rows = json.loads(run("matrix", "site.yaml", "--json").stdout)
    assert rows[0]["targets"]["cloud"]["rules"] == ["tools-stay"]


def test_fmt_writes_only_where_it_is_asked_to() -> None:
    tidy = Path("site.yaml").read_text()
    untidy = "# Ours.\n" + "\n".join(reversed(tidy.split("\n", 2)[:2])) + "\n" + tidy.split("\n", 2)[2] + "\n\n"
    Path("untidy.yaml").write_text(untidy)
    run("fmt", "--check", "untidy.yaml", status=1)
    assert Path("untidy.yaml").read_text() == untidy
    run("fmt", "untidy.yaml")
    assert Path("untidy.yaml").read_text() == "# Ours.\n" + tidy
    run("fmt", "--check", "untidy.yaml")
    Path("flow.yaml").write_text("{apiVersion: tidegate/v1, name: a, targets: {edge: {kind: edge, clearance: public}}}")
    assert "cannot be formatted" in run("fmt", "flow.yaml", status=2).stderr


def test_schema_prints_what_is_published() -> None:
    published = Path(__file__).parents[3] / "docs" / "policy.schema.json"
    assert run("schema").stdout == published.read_text(encoding="utf-8")


def test_the_policies_that_come_along_are_listed_with_what_they_are_for_and_printed_as_they_stand() -> None:
    listed = json.loads(run("list", "--json").stdout)
    assert [each["name"] for each in listed] == builtin_names()
    assert all(each["purpose"].endswith(".") and each["purpose"] in run("list").stdout for each in listed)
    Path("mine.yaml").write_text(run("show", "healthcare").stdout, encoding="utf-8")
    assert load_policy(Path("mine.yaml")).digest == load_policy("healthcare").digest
    run("fmt", "--check", "mine.yaml")
    assert "did you mean `healthcare`?" in run("show", "helthcare", status=2).stderr


def test_a_request_in_a_file_may_bring_hints_and_a_state_of_the_device() -> None:
    request = {
        "headers": {"x-client-battery": "5", "ect": "5g"},
        "device": {"connectivity": "metered"},
        "targets": {"edge": {"waiting": 9}},
    }
    found = json.loads(run("explain", "cost-first", "--json", given=json.dumps(request)).stdout)
    assert set(found["rules"]) >= {"volume-costs", "battery-is-low"}
    assert found["client"]["battery_percent"] == 5
    assert found["device"] == {"connectivity": "metered", "free_memory_mb": None}
    assert found["targets"]["edge"]["waiting"] == 9
    assert found["notes"] == ["ect: could not be read, so the hint was left out"]
    shown = run("explain", "cost-first", given=json.dumps(request)).stdout
    for line in ("client  battery 5 %", "device  metered", "note    ect: could not be read, so the hint was left out"):
        assert f"\n{line}\n" in shown
