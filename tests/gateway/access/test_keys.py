"""Keys that `tidegate keys` makes: they hold within a second, and hold no more once they are revoked or expired."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from gateway.access.key_file import KeyFile, KeyFileUnusable, StoredKey
from gateway.access.key_ring import KeyRing
from gateway.access_settings import ApiKey, Auth
from gateway.cli.ask import ask
from gateway.cli.explain import explain
from gateway.cli.keys import app
from gateway.identity import Identity
from gateway.settings import Settings
from inference_protocol.errors import AuthenticationFailed
from tests.gateway.conftest import House, HouseFactory
from tests.gateway.test_identity import bearer, key
from tests.support.waiting import until

NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)


def keys(state_dir: Path, *arguments: str, status: int = 0) -> Result:
    found = CliRunner().invoke(app, arguments, env={"TIDEGATE_STATE_DIR": str(state_dir)})
    assert found.exit_code == status, found.output
    return found


def made(state_dir: Path, *arguments: str) -> str:
    """A new key, as a script would take it."""
    return keys(state_dir, "create", "--tenant", "acme", *arguments).stdout.strip()


def listed(state_dir: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(keys(state_dir, "list", "--json").stdout)["keys"]
    return rows


async def status(h: House, whole_key: str | None) -> int:
    headers = {} if whole_key is None else {"authorization": f"Bearer {whole_key}"}
    return (await h.gateway.chat(headers=headers)).status_code


async def test_a_key_holds_within_a_second_of_being_made_and_no_more_once_revoked(
    house: HouseFactory, tmp_path: Path
) -> None:
    async with house() as h:
        assert await status(h, None) == 200
        whole = made(tmp_path)
        at = time.monotonic()
        await until(lambda: _is(h, None, 401))
        assert await status(h, whole) == 200
        keys(tmp_path, "revoke", whole.partition(".")[0])
        await until(lambda: _is(h, whole, 401))
        assert time.monotonic() - at < 10, "a look at the file each half second takes it up"
        # Nobody is let in again because the last key was revoked, or because the file is gone.
        assert await status(h, None) == 401
        (tmp_path / "keys" / "callers.json").unlink()
        h.gateway.app.reload()
        await until(lambda: _is(h, None, 401))
        assert [outcome["outcome"] for outcome in await h.until_settled(5)][-1] == "unauthenticated"


async def _is(h: House, whole_key: str | None, wanted: int) -> bool:
    return await status(h, whole_key) == wanted


async def test_a_signal_takes_the_keys_up_at_once(house: HouseFactory, tmp_path: Path) -> None:
    async with house(auth={"required": True}) as h:
        whole = made(tmp_path)
        h.gateway.app.reload()
        await until(lambda: _is(h, whole, 200), within_s=5)


async def test_a_damaged_file_changes_nothing_in_a_running_gateway_and_stops_one_that_starts(
    house: HouseFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = made(tmp_path)
    async with house() as h:
        (tmp_path / "keys" / "callers.json").write_text("{")
        h.gateway.app.reload()
        await until(lambda: "The keys stay as they were: the file of keys is damaged" in caplog.text)
        assert await status(h, whole) == 200
        assert await status(h, None) == 401
    with pytest.raises(ValueError, match="damaged"):
        async with house():
            pass


def test_only_the_key_itself_is_on_standard_output_and_no_secret_is_kept(tmp_path: Path) -> None:
    found = keys(tmp_path, "create", "--tenant", "acme", "--expires", "90d")
    key_id, _, secret = found.stdout.strip().partition(".")
    assert len(secret) == 48
    assert "shown this once" in found.stderr
    stored = tmp_path / "keys" / "callers.json"
    assert secret not in stored.read_text()
    assert stored.stat().st_mode & 0o777 == 0o600
    assert secret not in keys(tmp_path, "list").output
    (row,) = listed(tmp_path)
    digest = KeyFile(stored).load()[0].secret_sha256
    assert (row["id"], digest in json.dumps(row)) == (key_id, False)
    assert digest not in repr(KeyFile(stored).load())


def test_what_a_key_is_made_with_is_what_is_listed_and_what_it_has(tmp_path: Path) -> None:
    options = (
        "--id door-cam --role inference --role auditor --requests-per-minute 60 --tokens-per-day 5000 "
        "--data-class internal --data-tag pii --residency eu --may finish --expires 2030-01-31T12:00+02:00 --json"
    )
    shown = json.loads(made(tmp_path, *options.split()))
    assert shown["key"].startswith("door-cam.")
    (row,) = listed(tmp_path)
    assert row == {
        "id": "door-cam",
        "tenant": "acme",
        "roles": ["inference", "auditor"],
        "status": "active",
        "created_at": row["created_at"],
        "expires_at": "2030-01-31T10:00:00+00:00",
        "revoked_at": None,
        "data_class": "internal",
        "data_tags": ["pii"],
        "residency": "eu",
        "may": ["finish"],
        "limits": {"requests_per_minute": 60, "tokens_per_day": 5000},
    }
    ring = KeyRing(Auth())
    ring.replace(KeyFile(tmp_path / "keys" / "callers.json").load())
    principal = ring.find("door-cam", shown["key"].partition(".")[2], time.time())
    assert principal == ring.of("door-cam", time.time())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("create --tenant a --expires yesterday", "say 90d, 12h, 30m or 2w"),
        ("create --tenant a --expires 2020-01-01", "that has passed"),
        ("create --tenant a --data-class secret", "allowed: public, internal, confidential, restricted"),
        ("create --tenant a --may everything", "`may.0`: not `everything`"),
        ("create --tenant a --tokens-per-day 0", "`tokens_per_day`: should be greater than 0"),
        ("create --tenant a --id a/b", "`id`"),
        ("create --tenant a --id first", "there is a key first already"),
        ("revoke nobody", "There is no key nobody to revoke"),
    ],
)
def test_what_cannot_be_done_is_said_with_what_can_and_changes_nothing(
    tmp_path: Path, arguments: str, said: str
) -> None:
    made(tmp_path, "--id", "first")
    before = listed(tmp_path)
    assert said in keys(tmp_path, *arguments.split(), status=1).stderr
    assert listed(tmp_path) == before


def test_an_id_that_was_revoked_is_never_given_again_and_stays_revoked(tmp_path: Path) -> None:
    made(tmp_path, "--id", "first")
    keys(tmp_path, "revoke", "first")
    (revoked,) = listed(tmp_path)
    keys(tmp_path, "revoke", "first")
    assert listed(tmp_path) == [revoked]
    keys(tmp_path, "create", "--tenant", "b", "--id", "first", status=1)


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    made(tmp_path)
    file = tmp_path / "keys" / "callers.json"
    file.chmod(0o620)
    with pytest.raises(KeyFileUnusable, match="chmod 600"):
        KeyFile(file).load()
    assert "chmod 600" in keys(tmp_path, "list", status=1).stderr


@pytest.mark.parametrize("fault", ["unknown", "wrong secret", "expired", "revoked"])
async def test_callers_are_told_the_same_of_every_key_that_does_not_hold_and_the_log_tells_why(
    caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    caplog.set_level(logging.INFO)
    live = {**key("live"), "created_at": NOW}
    past = {**key("past"), "created_at": NOW, "expires_at": NOW - timedelta(seconds=1)}
    gone = {**key("gone"), "created_at": NOW, "revoked_at": NOW}
    ring = KeyRing(Auth())
    ring.replace([StoredKey(**each) for each in (live, past, gone)])
    identity = Identity(Auth(), ring, wall=NOW.timestamp)
    assert (await identity.identify(bearer("live"))).id == "live"
    sent = {
        "unknown": bearer("none"),
        "wrong secret": bearer("live", "wrong"),
        "expired": bearer("past"),
        "revoked": bearer("gone"),
    }
    with pytest.raises(AuthenticationFailed) as refused:
        await identity.identify(sent[fault])
    assert (
        refused.value.message == "This key or token does not hold. Ask the operator of this gateway for one that does."
    )
    assert fault in caplog.text
    assert "correct-horse" not in caplog.text


async def test_an_expired_key_does_not_come_to_life_before_the_clock_says_so() -> None:
    """A clock that jumps ahead ends a key, and one that is put right gives it back: nothing is remembered of it."""
    now = NOW.timestamp()
    ring = KeyRing(Auth(keys=(ApiKey(**key("app1"), expires_at=NOW + timedelta(hours=1)),)))
    identity = Identity(Auth(required=True), ring, wall=lambda: now)
    assert (await identity.identify(bearer("app1"))).id == "app1"
    now += 3600
    with pytest.raises(AuthenticationFailed):
        await identity.identify(bearer("app1"))
    assert identity.of("app1", "tenant-app1") is None
    now -= 1800
    assert (await identity.identify(bearer("app1"))).id == "app1"


def test_refusals_cannot_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    from gateway.access.refusal_log import RefusalLog

    now = 0.0
    log = RefusalLog(lambda: now)
    for _ in range(1000):
        log.refused("a key", "unknown")
    assert len(caplog.records) == 1
    now += 60
    log.refused("a key", "unknown")
    assert "Refused 999 more callers: a key unknown" in caplog.text


def test_a_key_of_the_settings_may_not_have_the_id_of_another(tmp_path: Path) -> None:
    made(tmp_path, "--id", "app1")
    ring = KeyRing(Auth(keys=(ApiKey(**key("app1")),)))
    with pytest.raises(ValueError, match="two keys have the id app1"):
        ring.replace(KeyFile(tmp_path / "keys" / "callers.json").load())


def test_an_address_that_others_reach_needs_callers_to_show_a_key(tmp_path: Path) -> None:
    listen = {"host": "0.0.0.0"}
    with pytest.raises(ValueError, match="tidegate keys create"):
        Settings(state_dir=tmp_path, listen=listen)
    assert Settings(state_dir=tmp_path, listen=listen, auth={"required": True}).auth.is_promised


async def test_a_caller_without_the_role_asks_for_no_answer(house: HouseFactory) -> None:
    async with house(auth={"keys": [key("looks", roles=["auditor"])]}) as h:
        refused = await h.gateway.chat(headers=bearer("looks"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "permission_denied")
        kept = await h.gateway.client.get("/v1/requests/req-1", headers=bearer("looks"))
        assert kept.status_code == 403
        assert not h.edge.posts + h.cloud.posts


async def test_a_key_that_may_put_off_and_comes_later_is_told_what_it_waits_for(
    house: HouseFactory, tmp_path: Path
) -> None:
    async with house(auth={"required": True}) as h:
        whole = made(tmp_path, "--may", "defer")
        await until(lambda: _is(h, whole, 200))
        answer = await h.gateway.chat(headers={"authorization": f"Bearer {whole}"}, deferrable=True)
        assert (answer.status_code, answer.json()["error"]["param"]) == (403, "deferrable")


async def test_the_commands_ask_with_the_key_that_their_variable_holds(house: HouseFactory, tmp_path: Path) -> None:
    commands = typer.Typer()
    commands.command()(ask)
    commands.command()(explain)
    async with house(auth={"required": True}) as h:
        whole = made(tmp_path)
        await until(lambda: _is(h, whole, 200))
        for command in ("ask", "explain"):
            arguments = [command, "hello", "--url", h.gateway.url]
            told = await asyncio.to_thread(CliRunner().invoke, commands, arguments, env={"TIDEGATE_KEY": whole})
            assert told.exit_code == 0, told.output
            refused = await asyncio.to_thread(CliRunner().invoke, commands, arguments, env={"TIDEGATE_KEY": None})
            assert (refused.exit_code, "authentication_failed" in refused.output) == (1, True)
