"""`tidegate policy keygen`, `bundle`, `sign`, `approve`: policies that people vouch for."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from gateway.admin import paths
from gateway.cli.options import JsonOption, SettingsOption
from gateway.cli.policy.admin_client import AdminClient, AdminUrlOption, WhyOption, in_words, say_change
from gateway.cli.policy.common import end, policy_or_exit, say_json, unreadable
from gateway.policies.bundle import Bundle, read_bundle, signatures_as_json
from gateway.policies.document import read_document
from gateway.policies.held import approval
from observability.disk import write_whole
from routing_policies.policy.errors import PolicyError
from serving.signatures import KeyUnusable, PrivateKey

KeyOption = Annotated[Path, typer.Option("--key", help="Your private key, as `keygen` made it.")]


def keygen(
    file: Annotated[Path, typer.Argument(help="Where the private key goes.", metavar="FILE")],
    as_json: JsonOption = False,
) -> None:
    """Make a key to sign policies with, and print its public half for `rollout.approvers`."""
    key = PrivateKey.make()
    try:
        key.save(file)
    except OSError as exc:
        unreadable(f"{file}: cannot be written: {exc.strerror}")
    if as_json:
        say_json({"public_key": key.public.text, "key_id": key.public.id})
    else:
        typer.echo(key.public.text)


def bundle(
    policy: Annotated[str, typer.Argument(help="A policy file or a built-in name.")],
    version: Annotated[int, typer.Option("--version", min=1, help="Higher than that of every bundle before it.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the bundle goes.")],
    expires_days: Annotated[int | None, typer.Option("--expires-days", min=1, help="Days until it expires.")] = None,
) -> None:
    """Put a policy and what is signed about it in one file, which nobody has signed yet."""
    loaded = policy_or_exit(policy)
    now = datetime.now(UTC).replace(microsecond=0)
    expires = None if expires_days is None else now + timedelta(days=expires_days)
    made = Bundle.make(loaded.source.text, loaded.policy.name, version, now, expires)
    _write(output, made)
    typer.echo(f"{output}: {loaded.policy.name}, version {version}; sign it with `tidegate policy sign`")


def sign(
    file: Annotated[Path, typer.Argument(help="A bundle.", metavar="BUNDLE")],
    key: KeyOption,
) -> None:
    """Add your signature to a bundle."""
    try:
        found = read_bundle(read_document(str(file)))
    except PolicyError as exc:
        unreadable(str(exc))
    if found is None:
        unreadable(f"{file}: is no bundle; make one with `tidegate policy bundle`")
    signed = found.signed(_key(key))
    _write(file, signed)
    count = len(signed.envelope.signatures)
    signatures = "1 signature" if count == 1 else f"{count} signatures"
    typer.echo(f"{file}: {signed.manifest.name}, version {signed.manifest.version}, now with {signatures}")


def approve(
    key: KeyOption,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    why: WhyOption = "",
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
    url: AdminUrlOption = None,
) -> None:
    """Look at the policy that waits for signatures, and sign it."""
    client = AdminClient(url, settings_file)
    held = client.get(paths.POLICY)["held"]
    if held is None:
        unreadable("no policy waits for a signature")
    if not as_json:
        place = f"as a canary for {held['share']}, " if held["place"] == "canary" else ""
        name = f"{held['name']}@{held['digest'][:12]}, version {held['version']}"
        typer.echo(f"{name}, {place}offered by {held['by']}; it waits for {in_words(held)}")
        for one in held["looser"]:
            typer.secho(f"looser: {one['words']}", fg=typer.colors.YELLOW)
    if not yes:
        typer.confirm("Sign it?", abort=True)
    signed = _key(key).sign(approval(held["id"], held["sha256"], held["replaces"]))
    change = client.post(
        paths.APPROVE,
        kind=signed.kind,
        payload=base64.b64encode(signed.payload).decode(),
        signatures=signatures_as_json(signed.signatures),
        why=why,
    )
    if as_json:
        say_json(change)
    else:
        say_change(change)
    end(found=change["became"] == "held")


def _key(path: Path) -> PrivateKey:
    try:
        return PrivateKey.load(path)
    except KeyUnusable as exc:
        unreadable(f"--key: {exc}")


def _write(path: Path, made: Bundle) -> None:
    try:
        write_whole(path, made.to_json(), mode=0o666)
    except OSError as exc:
        unreadable(f"{path}: cannot be written: {exc.strerror}")
