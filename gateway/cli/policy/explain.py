"""`tidegate policy explain`: what a policy that is not in force would decide for a request in a file, and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from gateway.cli.explain import show
from gateway.cli.options import JsonOption, SettingsOption, settings_or_fail
from gateway.cli.policy.common import PolicyArgument, end, policy_or_exit, unreadable
from gateway.cli.policy.request_file import RequestFile
from gateway.targets.tokens import reference_tokenizer
from inference_protocol.errors import TidegateError
from routing_policies import explain as explanation
from routing_policies.decide import decide
from routing_policies.policy.self_test import given_snapshot
from routing_policies.policy.validation import first_fault
from routing_policies.signals.scanner import build_scanner


def explain(
    source: PolicyArgument = None,
    request_file: Annotated[
        Path, typer.Option("--request", help="A request as `policy prove` prints it; `-` reads it from standard input.")
    ] = Path("-"),
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Show what a policy would decide for a request, and why. Needs no gateway and sends nothing."""
    policy = policy_or_exit(source, settings_file)
    try:
        text = sys.stdin.read() if str(request_file) == "-" else request_file.read_text(encoding="utf-8")
        request = RequestFile.model_validate_json(text)
        counter, calibration = reference_tokenizer(settings_or_fail(settings_file))
        view = request.view(policy, build_scanner(), calibration, counter)
    except (OSError, UnicodeDecodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "not UTF-8"
        unreadable(f"{request_file}: cannot be read: {why}")
    except ValidationError as exc:
        unreadable(f"{request_file}: {first_fault(exc, RequestFile)}")
    except TidegateError as exc:
        unreadable(f"{request_file}: {exc}")
    snapshot = given_snapshot(policy, request.targets, request.device)
    verdict = decide(policy, view, snapshot)
    show(explanation.explain(verdict, view, snapshot, policy), as_json=as_json)
    end(found=not verdict.eligible)
