"""What is checked before anything starts: each check ends the command with what is wrong."""

from __future__ import annotations

import os
import time

import typer

from gateway.cli.options import can_show_a_certificate, fail
from gateway.policies.start import Begun, begin
from gateway.policies.store import VersionStore
from gateway.policies.wiring import demands_of
from gateway.settings import Settings
from routing_policies.policy.errors import PolicyError


def begin_or_fail(settings: Settings) -> Begun:
    """Choose the policy to start with, or end the command with what is wrong; the state folder is there."""
    try:
        begun = begin(VersionStore(settings.folder.policies), demands_of(settings), settings.policy, time.time)
    except PolicyError as exc:
        fail(f"policy: {exc}")
    except OSError as exc:
        fail(f"state_dir: {settings.folder.policies} cannot be used: {exc.strerror}.")
    if begun.fault is not None:
        loaded = begun.in_force.stable.loaded
        words = f"Starting with the last good policy, {loaded.policy.name}@{loaded.digest[:12]}, since: {begun.fault}"
        typer.secho(words, fg=typer.colors.RED, err=True)
    return begun


def refuse_missing_credentials(settings: Settings) -> None:
    """End the command if a target's credential cannot be read."""
    for name, target in settings.targets.items():
        try:
            target.credential_headers()
        except ValueError as exc:
            fail(f"targets.{name}.credential: {exc}.")


def refuse_unanswered_probes(settings: Settings) -> None:
    """End the command if the gateway would turn away those who look whether it lives."""
    tls = settings.listen.tls
    if tls is not None and tls.client_ca_file is not None and not can_show_a_certificate():
        fail(
            "listen.tls.client_ca_file: whoever looks whether the gateway lives must show a certificate, too. Name one "
            "in TIDEGATE_CLIENT_CERTIFICATE and TIDEGATE_CLIENT_KEY."
        )


def prepare_state_folder(settings: Settings) -> None:
    """Make the folders that are written to, for this user alone, or end the command with the one that cannot be."""
    folder = settings.folder
    for path in (settings.state_dir, folder.records, folder.traces):
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            fail(f"state_dir: {path} cannot be made: {exc.strerror}. Set another `state_dir`, or mend that one.")
        if not os.access(path, os.W_OK | os.X_OK):
            fail(f"state_dir: {path} cannot be written to. Set another `state_dir`, or mend that one.")
