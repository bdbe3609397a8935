"""TLS of the gateway's own addresses: what it shows, whom it asks for certificates, and files that change under it."""

from __future__ import annotations

import asyncio
import signal
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
import typer
import yaml
from typer.testing import CliRunner

from gateway.cli.keys import app as keys_app
from gateway.cli.outbox import app as outbox_app
from gateway.cli.up import up
from gateway.settings import Listen, ListenTls
from serving.start import StartRefused
from tests.support.scripted_runtime import DONE_EVENT, Received, ScriptedRuntime, event, says
from tests.support.serving_process import Serving, serving
from tests.support.waiting import until

BODY = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}


def issue(folder: Path, authority: trustme.CA) -> dict[str, str]:
    """Write a pair for 127.0.0.1, as something that renews certificates does, and return the setting."""
    made = authority.issue_cert("127.0.0.1")
    for name, content in (
        ("key.pem", made.private_key_pem.bytes()),
        ("cert.pem", b"".join(each.bytes() for each in made.cert_chain_pems)),
    ):
        (folder / f".{name}").write_bytes(content)
        (folder / f".{name}").replace(folder / name)
    return {"certificate_file": str(folder / "cert.pem"), "key_file": str(folder / "key.pem")}


def trusting(authority: trustme.CA, client: trustme.LeafCert | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if client is not None:
        client.configure_cert(context)
    return context


async def shown(found: Serving, trusted: ssl.SSLContext) -> int:
    """The serial number of the certificate that a new connection is shown."""
    port = int(found.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted)
    try:
        writer.write(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert b"live" in await reader.read()
        certificate: dict[str, Any] = writer.get_extra_info("peercert")
        return int(certificate["serialNumber"], 16)
    finally:
        writer.close()


async def is_let_in(found: Serving, trusted: ssl.SSLContext) -> bool:
    try:
        return bool(await shown(found, trusted))
    except (ssl.SSLError, ConnectionError, AssertionError):
        return False


async def test_certificates_are_renewed_under_a_stream_that_does_not_notice(tmp_path: Path) -> None:
    authority, go_on = trustme.CA(), asyncio.Event()
    trusted = trusting(authority)

    async def held(request: Received) -> None:
        await request.head()
        await request.chunk(event(content="first"))
        await go_on.wait()
        await request.chunk(event(content="last", finish_reason="stop"))
        await request.chunk(DONE_EVENT)
        await request.end()

    async with ScriptedRuntime(held) as edge, ScriptedRuntime(held) as cloud:
        listen = {"tls": issue(tmp_path, authority)}
        async with (
            serving(tmp_path, edge, cloud, trusted=trusted, listen=listen) as found,
            httpx.AsyncClient(base_url=found.url, verify=trusted, trust_env=False, timeout=30) as client,
            client.stream("POST", "/v1/chat/completions", json={**BODY, "stream": True}) as stream,
        ):
            pieces = stream.aiter_bytes()
            assert b"first" in await anext(pieces)
            before = await shown(found, trusted)
            issue(tmp_path, authority)

            async def is_renewed() -> bool:
                return await shown(found, trusted) != before

            await until(is_renewed, within_s=10)
            go_on.set()
            rest = b"".join([piece async for piece in pieces])
            assert b"last" in rest
            assert rest.endswith(b"data: [DONE]\n\n")
            # In the clear nothing is said there.
            async with httpx.AsyncClient(trust_env=False) as plain:
                with pytest.raises(httpx.TransportError):
                    await plain.get(found.url.replace("https", "http") + "/livez")


async def test_clients_show_a_certificate_of_the_authority_that_holds_now(tmp_path: Path) -> None:
    authority, clients, others = trustme.CA(), trustme.CA(), trustme.CA()
    ours, theirs = clients.issue_cert("phone@example.com"), others.issue_cert("phone@example.com")
    ca = tmp_path / "clients.pem"
    clients.cert_pem.write_to_path(ca)
    tls = {**issue(tmp_path, authority), "client_ca_file": str(ca)}
    known = trusting(authority, ours)
    async with (
        ScriptedRuntime(says("hello")) as edge,
        ScriptedRuntime() as cloud,
        serving(tmp_path, edge, cloud, trusted=known, listen={"tls": tls}) as found,
        httpx.AsyncClient(base_url=found.url, verify=known, trust_env=False) as client,
    ):
        assert (await client.post("/v1/chat/completions", json=BODY)).status_code == 200
        assert not await is_let_in(found, trusting(authority))
        assert not await is_let_in(found, trusting(authority, theirs))
        before = [await is_let_in(found, known) for _ in range(2)]
        others.cert_pem.write_to_path(tmp_path / "next")
        (tmp_path / "next").replace(ca)
        found.process.send_signal(signal.SIGHUP)
        await until(lambda: is_let_in(found, trusting(authority, theirs)), within_s=10)
        # Whoever was let in before is not let in by that: no session is taken up again. What is open stays open.
        assert before == [True, True]
        assert not await is_let_in(found, known)
        assert (await client.get("/livez")).status_code == 200


async def test_only_clients_with_a_listed_name_are_let_in_and_no_other_is_answered_a_byte(tmp_path: Path) -> None:
    authority, clients = trustme.CA(), trustme.CA()
    ca = tmp_path / "clients.pem"
    clients.cert_pem.write_to_path(ca)
    names = ["phone.example.com", "10.0.0.7", "kiosk@example.com"]
    tls = {**issue(tmp_path, authority), "client_ca_file": str(ca), "client_names": ["Phone.example.com", *names[1:]]}
    known = trusting(authority, clients.issue_cert("other.example.com", names[0]))
    async with (
        ScriptedRuntime(says("hello")) as edge,
        ScriptedRuntime() as cloud,
        serving(tmp_path, edge, cloud, trusted=known, listen={"tls": tls}) as found,
    ):
        for name in names:
            assert await is_let_in(found, trusting(authority, clients.issue_cert(name))), name
        for name in ("example.com", "xphone.example.com", "phone.example.com.evil.example", "10.0.0.8"):
            assert not await is_let_in(found, trusting(authority, clients.issue_cert(name))), name
        by_common_name = clients.issue_cert("other.example.com", common_name="phone.example.com")
        assert not await is_let_in(found, trusting(authority, by_common_name)), "a common name is no name"
        assert "Turned 1 clients away" in found.log
        assert "evil.example" not in found.log
        async with httpx.AsyncClient(base_url=found.url, verify=known, trust_env=False) as client:
            assert (await client.post("/v1/chat/completions", json=BODY)).status_code == 200
        assert len(edge.posts) == 1


def test_names_of_clients_take_an_authority(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="client_ca_file"):
        ListenTls(certificate_file=tmp_path / "c", key_file=tmp_path / "k", client_names=("phone",))


async def test_files_that_cannot_be_used_leave_the_ones_before(tmp_path: Path) -> None:
    authority = trustme.CA()
    trusted = trusting(authority)
    async with (
        ScriptedRuntime() as edge,
        ScriptedRuntime() as cloud,
        serving(tmp_path, edge, cloud, trusted=trusted, listen={"tls": issue(tmp_path, authority)}) as found,
    ):
        before = await shown(found, trusted)
        (tmp_path / "key.pem").write_text("no key")
        await until(lambda: "The certificates stay as they were: cert.pem" in found.log, within_s=10)
        assert await shown(found, trusted) == before
        assert "no key" not in found.log
        issue(tmp_path, authority)

        async def is_renewed() -> bool:
            return await shown(found, trusted) != before

        await until(is_renewed, within_s=10)


async def test_the_commands_of_this_machine_trust_the_certificate_that_the_settings_name(tmp_path: Path) -> None:
    authority = trustme.CA()
    # Not for 127.0.0.1, as a certificate for the name that others use.
    tls = issue(tmp_path, authority)
    made = authority.issue_cert("tidegate.example.com")
    made.private_key_pem.write_to_path(tmp_path / "key.pem")
    made.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    pinned = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    pinned.check_hostname = False
    authority.configure_trust(pinned)
    state = {"TIDEGATE_STATE_DIR": str(tmp_path / "state")}
    async with (
        ScriptedRuntime() as edge,
        ScriptedRuntime() as cloud,
        serving(tmp_path, edge, cloud, trusted=pinned, listen={"tls": tls}, admin={"tls": dict(tls)}) as found,
    ):
        made_key = CliRunner().invoke(keys_app, ["create", "--tenant", "ops", "--role", "operator"], env=state)
        key = made_key.stdout.strip()
        told = {"TIDEGATE_ADMIN_KEY": key}
        arguments = ["list", "--settings", str(found.settings)]

        async def answers() -> bool:
            listed = await asyncio.to_thread(CliRunner().invoke, outbox_app, arguments, env=told)
            return listed.exit_code in (0, 1) and "certificate" not in listed.output.lower()

        await until(answers, within_s=15)
        # Another certificate than that of the settings is not taken for the gateway's.
        stranger = trustme.CA().issue_cert("tidegate.example.com")
        (tmp_path / "other.pem").write_bytes(stranger.cert_chain_pems[0].bytes())
        text = found.settings.read_text().replace(str(tmp_path / "cert.pem"), str(tmp_path / "other.pem"))
        (tmp_path / "wrong.yaml").write_text(text)
        refused = await asyncio.to_thread(
            CliRunner().invoke, outbox_app, ["list", "--settings", str(tmp_path / "wrong.yaml")], env=told
        )
        assert refused.exit_code == 1
        assert "Nothing answers" in refused.output


def test_files_that_cannot_be_used_stop_the_start_and_the_key_is_not_named(tmp_path: Path) -> None:
    tls = issue(tmp_path, trustme.CA())
    (tmp_path / "key.pem").write_text("secret")
    with pytest.raises(StartRefused, match=r"TLS cannot be set up: cert\.pem") as refused:
        Listen(tls=tls).secured()
    assert "key.pem" not in str(refused.value)


def test_a_supervisor_without_a_certificate_of_its_own_is_told_so_before_it_starts_anything(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "clients.pem")
    tls = {**issue(tmp_path, authority), "client_ca_file": str(tmp_path / "clients.pem")}
    file = tmp_path / "tidegate.yaml"
    file.write_text(yaml.safe_dump({"state_dir": str(tmp_path / "state"), "listen": {"tls": tls}}))
    commands = typer.Typer()
    commands.command()(up)
    refused = CliRunner().invoke(commands, ["--settings", str(file)], env={"TIDEGATE_CLIENT_CERTIFICATE": None})
    assert refused.exit_code == 1
    assert "TIDEGATE_CLIENT_CERTIFICATE" in refused.output
    assert not (tmp_path / "state").exists()
