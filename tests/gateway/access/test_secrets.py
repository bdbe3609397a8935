"""Canary secrets in every place that holds one, and every output that is read afterwards: none of them is in any."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from pydantic import SecretStr
from typer.testing import CliRunner

from gateway.cli.keys import app as keys_app
from gateway.settings import Settings
from gateway.settings_file import SettingsError, load_settings
from gateway.target_settings import Credential
from tests.gateway.access.test_inbound_tls import issue, trusting
from tests.gateway.test_identity import key
from tests.support.identity_provider import Provider
from tests.support.scripted_runtime import Received, ScriptedRuntime, event, says, state
from tests.support.serving_process import Serving, serving

OF_FILE, OF_ENV, OF_SYSTEMD = "cAnAry-of-file-71", "cAnAry-of-env-82", "cAnAry-of-systemd-93"
BODY = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}


async def tells_what_it_was_sent(request: Received) -> None:
    """A target that repeats the credential in every part of its answer."""
    told = request.headers.get("authorization", "none")
    await request.json_answer(401, {"error": {"message": told, "code": told}}, extra=f"x-told: {told}\r\n")


async def breaks_off(request: Received) -> None:
    """An error within a stream, or in the place of an answer."""
    told = json.dumps({"error": {"message": f"{request.headers.get('authorization')} again", "param": "x"}}).encode()
    if not request.json.get("stream"):
        await request.json_answer(200, json.loads(told))
        return
    await request.head()
    await request.chunk(event(content="a"))
    await request.chunk(b"data: " + told + b"\n\n")
    await request.end()


async def blames(request: Received) -> None:
    told = request.headers.get("authorization", "none")
    await request.json_answer(400, {"error": {"message": told, "param": told}})


async def test_no_secret_is_in_any_output(tmp_path: Path) -> None:
    authority, provider = trustme.CA(), Provider()
    trusted = trusting(authority)
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "cloud-token").write_text(f"{OF_SYSTEMD}\n")
    (tmp_path / "jwks.json").write_bytes(provider.jwks)
    tls = issue(tmp_path, authority)
    made = CliRunner().invoke(
        keys_app, ["create", "--tenant", "acme"], env={"TIDEGATE_STATE_DIR": str(tmp_path / "state")}
    )
    whole, token = made.stdout.strip(), provider.token()
    issuer = {
        "issuer": provider.issuer,
        "audiences": ["tidegate"],
        "tenant": "acme",
        "roles": ["inference"],
        "jwks_file": str(tmp_path / "jwks.json"),
    }
    private = "".join((tmp_path / "key.pem").read_text().splitlines()[1:3])
    secrets = [OF_ENV, OF_SYSTEMD, whole.partition(".")[2], *token.split(".")[1:], private[:40]]
    operator = key("oper", roles=["operator"])
    async with (
        ScriptedRuntime() as edge,
        ScriptedRuntime(report=state(window=8192)) as cloud,
        serving(
            tmp_path,
            edge,
            cloud,
            trusted=trusted,
            environment={"EDGE_TOKEN": OF_ENV, "CREDENTIALS_DIRECTORY": str(tmp_path / "credentials")},
            cloud_target={"credential": {"systemd": "cloud-token"}},
            listen={"tls": tls},
            breaker={"faults": 10_000},  # so that faulty targets go on being asked
            auth={"keys": [operator], "issuers": {"corp": issuer}},
        ) as found,
    ):
        outputs = []
        for answer in (says("fine"), tells_what_it_was_sent, blames, breaks_off):
            edge.answer = cloud.answer = answer
            before = len(cloud.posts)
            outputs += [output async for output in asked(found, trusted, [whole, token])]
            assert len(cloud.posts) > before
        sent = {request.headers.get("authorization") for request in cloud.requests}
        assert sent == {f"Bearer {OF_SYSTEMD}"}
    outputs += [(path.name, path.read_bytes()) for path in (tmp_path / "state").rglob("*") if path.is_file()]
    outputs += [("log", found.log.encode())]
    names = {name for name, _ in outputs}
    assert {"requests.jsonl", "gateway.jsonl", "callers.json", "log", "/status", "/metrics"} <= names
    leaked = [(secret, name) for name, content in outputs for secret in secrets if secret.encode() in content]
    assert not leaked


async def asked(found: Serving, trusted: Any, good: list[str]) -> Any:
    """What answers to all kinds of requests say, on both listeners."""
    async with httpx.AsyncClient(verify=trusted, trust_env=False, timeout=30) as client:
        for credential in [*good, *(each[:-4] for each in good), "nobody.nothing"]:
            headers = {"authorization": f"Bearer {credential}"}
            for text in ("hello", "word " * 800):
                body = {**BODY, "messages": [{"role": "user", "content": text}]}
                for stream in (False, True):
                    answer = await client.post(
                        f"{found.url}/v1/chat/completions", json={**body, "stream": stream}, headers=headers
                    )
                    yield "answer", answer.content + str(answer.headers).encode()
            for path in ("/readyz", "/v1/models", "/openapi.json"):
                answer = await client.get(found.url + path, headers=headers)
                yield path, answer.content + str(answer.headers).encode()
        operator = {"authorization": "Bearer oper.correct-horse-battery"}
        for path in ("/status", "/metrics", "/policy", "/policy/versions", "/none"):
            answer = await client.get(found.admin_url + path, headers=operator)
            yield path, answer.content + str(answer.headers).encode()


def test_no_secret_is_in_what_settings_and_credentials_look_like(tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "token"
    file.write_text(OF_FILE)
    monkeypatch.setenv("CLOUD_TOKEN", OF_ENV)
    for source in ({"file": file}, {"env": "CLOUD_TOKEN"}):
        credential = Credential.model_validate(source)
        token = credential.read()
        assert isinstance(token, SecretStr)
        looks = [repr(credential), str(credential), credential.model_dump_json(), repr(token), str(token)]
        assert not [look for look in looks if OF_FILE in look or OF_ENV in look]
    settings = Settings(state_dir=tmp_path, auth={"keys": [key("app1")]})
    assert settings.auth.keys[0].secret_sha256 not in repr(settings)


WRONG = {
    "a credential in the settings": ("targets: {cloud: {credential: CANARY}}", "no secret stands in the settings"),
    "a credential by another name": ("targets: {cloud: {credential: {token: CANARY}}}", "unknown field"),
    "a credential that is a number": ("targets: {cloud: {credential: [CANARY]}}", "targets.cloud.credential"),
    "a password in an address": ("targets: {cloud: {endpoints: ['https://u:CANARY@h']}}", "no user and no password"),
    "a password in a proxy": ("targets: {cloud: {proxy: 'http://u:CANARY@h:1'}}", "no user and no password"),
    "a secret in place of its digest": (
        "auth: {keys: [{id: app1, tenant: t, secret_sha256: CANARY}]}",
        "auth.keys.0.secret_sha256",
    ),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_mistake_beside_a_secret_is_told_without_it(tmp_path: Path, how: str) -> None:
    text, said = WRONG[how]
    file = tmp_path / "tidegate.yaml"
    file.write_text(text.replace("CANARY", OF_FILE))
    with pytest.raises(SettingsError) as refused:
        load_settings(file)
    assert said in str(refused.value)
    assert OF_FILE not in str(refused.value)


def test_a_variable_that_cannot_be_read_is_named_and_not_quoted(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEGATE_AUTH__KEYS", f'[{{"id": "app1", "secret_sha256": "{OF_ENV}"')
    with pytest.raises(SettingsError, match="the environment: what is set of `auth` is not JSON") as refused:
        load_settings(None)
    assert OF_ENV not in str(refused.value)
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({}, "exactly one of `file`, `env` and `systemd`"),
        ({"env": "A", "systemd": "a"}, "exactly one of `file`, `env` and `systemd`"),
        ({"systemd": "../token"}, "systemd"),
    ],
)
def test_a_credential_has_one_source(source: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        Credential.model_validate(source)


def test_what_systemd_hands_over_is_read_from_its_folder(tmp_path: Path, monkeypatch: Any) -> None:
    credential = Credential(systemd="cloud-token")
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(ValueError, match="LoadCredential=cloud-token"):
        credential.read()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    with pytest.raises(ValueError, match="cannot be read"):
        credential.read()
    (tmp_path / "cloud-token").write_text(f"{OF_SYSTEMD}\n")
    assert credential.read().get_secret_value() == OF_SYSTEMD


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", b"line\nline", b"\xff\xfe", "töken".encode()])
def test_what_is_no_token_is_refused_before_it_is_sent(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(ValueError, match="the credential") as refused:
        Credential(file=tmp_path / "token").read()
    assert "word" not in str(refused.value).replace("one word of ASCII", "")
