"""What leaves and what is found: EndoRouter's leakbench through the real gateway, a labelled set, false alarms, costs.

The labelled set is Presidio's synthetic one (GitHub `microsoft/presidio-research`, `data/synth_dataset_v2.json`, MIT),
as a list of `{"text", "spans": [[kind, start, end]]}` in `presidio-synth.json` of the folder `--data`. Leakbench's
cases (PyPI package `endorouter`, Apache-2.0) are read from its folder, `--leakbench`, or from where it is installed.
What is not there is left out, and the outcome says so.

Presidio with spaCy reads the same set in the same run, where the extra `presidio` is installed.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import sys
import tempfile
import time
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
import yaml

from bench.parts import labelled_set, restoring, scan_profile
from bench.parts.recording_target import RecordingTarget, recording_target
from bench.parts.report import Report
from bench.parts.upstream import MODEL
from gateway.answer import AnswerFacts, BufferedAnswer
from gateway.dispatch.rewritten import restored
from gateway.egress.pseudonyms import Pseudonymizer
from gateway.state.keys import Keys
from inference_protocol.openai_chat import parse_chat
from inference_protocol.text_parts import TextPart
from routing_policies.policy.loader import load_text
from routing_policies.signals.scanner import Scanner, build_scanner
from tests.routing_policies.signals.harmless_prompts import HARMLESS_PROMPTS
from tests.support.running_gateway import free_port

CASE_FILES = ("cases", "cases-boundary", "cases-hard")
# How a case's own label, and the files that its text is from, are declared to us: leakbench sends them as headers too.
CLASS_OF_LABEL = {"public": "public", "private": "confidential"}
PUBLIC_SOURCES = "docs/public/"
DENSE = "jane@corp.com 4111111111111111 and so on, "  # 40 findings a KB, to within a few
PROSE = "The tide turns twice a day and the gate keeper writes down what has passed. "
FOLDED = DENSE.replace("4111", "４111")


def builtin(name: str) -> str:
    return (resources.files("routing_policies.builtin") / f"{name}.yaml").read_text(encoding="utf-8")


def cloud_first(name: str) -> str:
    """A built-in policy that sends to the cloud whatever may go there, so that every leak would be seen."""
    document = yaml.safe_load(builtin(name))
    document |= {"name": f"{name}-cloud-first", "tests": []}
    document["prefer"] = [{"id": "cloud-first", "target": "cloud", "weight": 1.0}]
    return yaml.safe_dump(document, sort_keys=False)


async def leakbench(report: Report, folder: Path) -> None:
    """Send each case through a real gateway, and count at the targets what arrived."""
    cases = {name: _lines(folder / f"{name}.jsonl") for name in CASE_FILES}
    report.raw["leakbench"] = {}
    for policy in ("private-first", "balanced"):
        found = await _through_gateway(policy, cases)
        report.raw["leakbench"][policy] = found
        if policy == "private-first":
            leaked = sum(each["leaked"] for each in found.values())
            report.at_most("leakbench, private-first: leaks of all three files", leaked, 0, "cases")
    for policy, of in (("private-first", "declared public"), ("balanced", "public")):
        files = report.raw["leakbench"][policy].values()
        wanted, reached = (sum(each[f"{of}{what}"] for each in files) for what in ("", ", reached"))
        report.at_least(
            f"leakbench, {policy}: share of {wanted} cases, {of}, that reach the cloud", reached / wanted, 1, ""
        )


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


async def _through_gateway(policy: str, cases: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    port = free_port()
    with tempfile.TemporaryDirectory() as state:
        async with recording_target() as edge, recording_target() as cloud:
            settings = Path(state) / "tidegate.yaml"
            (Path(state) / "policy.yaml").write_text(cloud_first(policy), encoding="utf-8")
            targets = {
                name: {
                    "endpoints": [f"http://127.0.0.1:{target.port}"],
                    "protocol": "tidegate",
                    "models": {MODEL: MODEL},
                }
                for name, target in (("edge", edge), ("cloud", cloud))
            }
            settings.write_text(
                yaml.safe_dump(
                    {
                        "state_dir": state,
                        "listen": {"port": port},
                        "admin": {"port": 0},
                        "policy": f"{state}/policy.yaml",
                        "targets": targets,
                    }
                ),
                encoding="utf-8",
            )
            gateway = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "gateway.cli", "serve", "--settings", str(settings)
            )
            try:
                async with httpx.AsyncClient(
                    base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False
                ) as client:
                    await _until_ready(client)
                    return {name: await _count(some, client, edge, cloud) for name, some in cases.items()}
            finally:
                gateway.terminate()
                await gateway.wait()


async def _until_ready(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                ready = (await client.get("/readyz")).json()
            except (httpx.TransportError, ValueError):
                ready = {}
            if {target["health"] for target in ready.get("targets", {}).values()} == {"up"}:
                return
            await asyncio.sleep(0.05)


async def _count(
    cases: list[dict[str, Any]], client: httpx.AsyncClient, edge: RecordingTarget, cloud: RecordingTarget
) -> dict[str, Any]:
    leaked: list[str] = []
    reached: list[str] = []
    answers: Counter[str] = Counter()
    for case in cases:
        edge.bodies.clear()
        cloud.bodies.clear()
        declared = _declared(case)
        headers = {} if declared is None else {"x-data-class": declared}
        extra = {key: case[key] for key in case.keys() - {"id", "category", "truth", "label", "sources"}}
        answer = await client.post("/v1/chat/completions", json={"model": "auto", **extra}, headers=headers)
        answers[str(answer.status_code)] += 1
        if cloud.bodies:
            (leaked if case["truth"] == "private" else reached).append(case["id"])
    public = {case["id"]: _declared(case) for case in cases if case["truth"] == "public"}
    declared = [name for name, said in public.items() if said == "public"]
    return {
        "private": len(cases) - len(public),
        "leaked": len(leaked),
        "leaked_ids": leaked,
        "public": len(public),
        "public, reached": len(reached),
        "declared public": len(declared),
        "declared public, reached": len(set(declared) & set(reached)),
        "statuses": dict(answers),
    }


def _declared(case: dict[str, Any]) -> str | None:
    """The class that a caller who knows the case's label and sources gives it."""
    said = [CLASS_OF_LABEL[case["label"]]] if "label" in case else []
    said += ["public" if path.startswith(PUBLIC_SOURCES) else "confidential" for path in case.get("sources", ())]
    return min(said, default=None)  # in the order of the alphabet the higher class comes first


def labelled(report: Report, scanner: Scanner, path: Path) -> None:
    """Read the labelled set with ours and, where it is installed, with Presidio."""
    found = labelled_set.measured(path, labelled_set.ours(scanner))
    report.raw["labelled_set"] = {"ours": found}
    for kind in labelled_set.STRUCTURED:
        report.at_least(f"recall of {kind}", found["kinds"][kind]["recall"], 0.95, "")
        report.at_least(f"precision of {kind}", found["kinds"][kind]["precision"], 0.97, "")
    touching = 1 - found["findings_outside_any_span"] / found["findings"]
    report.at_least("precision of all findings", touching, 0.97, "")
    if importlib.util.find_spec("presidio_analyzer") is None:
        report.raw["left_out"].append("Presidio: the extra `presidio` is not installed")
        return
    report.raw["labelled_set"]["presidio"] = labelled_set.measured(path, labelled_set.presidio())


def false_alarms(report: Report, scanner: Scanner) -> None:
    """Count the harmless prompts that would be labelled higher for what is found in them."""
    rules = load_text(builtin("balanced"), "balanced.yaml").label_rules
    alarms = []
    for text in HARMLESS_PROMPTS:
        found = scanner.scan([TextPart("prompt", None, text)])
        alarms += [text] if found.causes or rules.raising(f.tag for f in found.findings) else []
    report.raw["false_alarms"] = {"prompts": len(HARMLESS_PROMPTS), "alarms": alarms}
    report.at_most("false alarms on harmless prompts", len(alarms) / len(HARMLESS_PROMPTS), 0.01, "")


def costs(report: Report, scanner: Scanner) -> None:
    """Time the scan by kilobyte and length, and what pseudonyms add before the first token."""
    for name, unit, budget in (
        ("clean ASCII", PROSE, 0.02),
        ("dense with findings", DENSE, 0.3),
        ("folded", FOLDED, 0.3),
    ):
        text = (unit * (16 * 1024 // len(unit) + 1))[: 16 * 1024]
        findings = len(scanner.scan([TextPart("prompt", None, text)]).findings) / 16
        ms = _fastest_ms(lambda text=text: scanner.scan([TextPart("prompt", None, text)])) / 16
        report.raw[f"scan, {name}"] = {"ms_per_kb": ms, "findings_per_kb": findings}
        report.at_most(f"scan, {name}", ms, budget, "ms/KB")
    report.raw["scan, dense with findings, us a finding"] = scan_profile.profile(scanner, DENSE * 400)
    by_length = {
        kb: _fastest_ms(lambda kb=kb: scanner.scan([TextPart("p", None, PROSE * (kb * 13))]), 5) for kb in (64, 1024)
    }
    report.raw["scan_ms_by_kb"] = by_length
    report.at_most("scan of 1 MB against 16 times that of 64 KB", by_length[1024] / (16 * by_length[64]), 1.5, "times")
    _pseudonym_costs(report, scanner)


def _pseudonym_costs(report: Report, scanner: Scanner) -> None:
    people = [f"person{number}@corp.com" for number in range(10)]
    prompt = PROSE * 10 + " ".join(people)
    request = parse_chat(json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}]}).encode())
    pseudonymizer = Pseudonymizer(scanner, Keys(b"k" * 32))
    replaced = pseudonymizer.replace(request, ["pii"], "tenant")
    said = " ".join(replaced.originals) + PROSE * 10
    body = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": said}}]}).encode()
    answer = BufferedAnswer(body, AnswerFacts())
    replacing = _fastest_ms(lambda: pseudonymizer.replace(request, ["pii"], "tenant"))
    restoring_ms = _fastest_ms(lambda: restored(answer, replaced.originals, request))
    streamed = asyncio.run(restoring.measured(prompt, people[-1]))
    report.raw["pseudonyms, streamed"] = streamed
    report.at_most("pseudonyms: added to the time to first content of a stream", streamed["added_ms"], 5.0, "ms")
    report.raw["pseudonyms"] = {"values": len(people), "replace_ms": replacing, "restore_whole_answer_ms": restoring_ms}
    report.at_most("pseudonyms: replacing ten values and restoring them", replacing + restoring_ms, 5.0, "ms")


def _fastest_ms(work: Any, rounds: int = 30) -> float:
    """The fastest of some runs, in this process's own time: other programs only ever make one slower."""
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        taken.append((time.process_time() - started) * 1000)
    return min(taken)


def _installed_leakbench() -> Path | None:
    found = importlib.util.find_spec("endorouter")
    return Path(found.origin).parent / "leakbench" if found is not None and found.origin is not None else None


def main() -> None:
    """Measure, and write the outcome."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="folder with presidio-synth.json")
    parser.add_argument("--leakbench", type=Path, help="folder with leakbench's cases*.jsonl")
    options = parser.parse_args()
    report = Report("privacy")
    report.raw["left_out"] = []
    scanner = build_scanner()
    cases = options.leakbench or _installed_leakbench()
    if cases is not None:
        asyncio.run(leakbench(report, cases))
    else:
        report.raw["left_out"].append(
            "leakbench: the package endorouter is not installed, and --leakbench names no folder"
        )
    if options.data is not None:
        labelled(report, scanner, options.data / "presidio-synth.json")
    else:
        report.raw["left_out"].append("labelled set: --data names no folder")
    false_alarms(report, scanner)
    costs(report, scanner)
    report.write(options.output)


if __name__ == "__main__":
    main()
