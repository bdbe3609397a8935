"""Settings that cannot be right refuse the start, with file, line and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from gateway.settings import Settings
from gateway.settings_file import SettingsError, load_settings


def loaded(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "tidegate.yaml"
    path.write_text(text, encoding="utf-8")
    return load_settings(path)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("listen:\n  prot: 1\n", 2, ["prot", "did you mean `port`"]),
        ("listen: {port: 99999}\n", 1, ["listen.port", "65535"]),
        ("targets:\n  cloud:\n    protocol: openia\n", 3, ["openia", "tidegate", "openai"]),
        ("targets:\n  cloud:\n    endpoints: ['ftp://x']\n", 3, ["ftp://x", "https://host:port"]),
        ("listen:\n  host: 0.0.0.0\n", 1, ["0.0.0.0", "auth.required", "127.0.0.1"]),
        ("default_model: gpt\n", 1, ["gpt", "smollm2-135m-instruct"]),
        ("a: [", 1, ["not YAML"]),
        ("listen: {port: 1}\nlisten: {port: 2}\n", 2, ["twice"]),
        ("- listen\n", 1, ["settings are a mapping", "listen"]),
        ("records: {durability: maybe}\n", 1, ["maybe", "process", "disk"]),
    ],
)
def test_a_wrong_settings_file_says_where_and_what_is_allowed(
    tmp_path: Path, text: str, line: int, words: list[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        loaded(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'tidegate.yaml'}:{line}:"), message
    for word in words:
        assert word in message
    assert "``" not in message, "it points at a field that has no name"


def test_a_target_keeps_the_defaults_that_a_file_leaves_out(tmp_path: Path) -> None:
    found = loaded(tmp_path, "targets:\n  cloud: {endpoints: ['https://gpu.example/v1'], protocol: openai}\n")
    assert found.targets["cloud"].models == {
        "smollm2-135m-instruct": "smollm2-135m-instruct",
        "all-minilm-l6-v2": "all-minilm-l6-v2",
    }
    assert found.targets["edge"].endpoints[0].startswith("unix:/")
    assert found.stand_in_port is None


def test_a_target_set_to_null_is_not_there(tmp_path: Path) -> None:
    assert list(loaded(tmp_path, "targets: {cloud: null}\n").targets) == ["edge"]


@pytest.mark.parametrize("text", ["", "# nothing yet\n"])
def test_an_empty_file_is_the_defaults(tmp_path: Path, text: str) -> None:
    assert loaded(tmp_path, text).model_dump() == Settings().model_dump()


def test_the_environment_stands_above_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_LISTEN__PORT", "9191")
    monkeypatch.setenv("TIDEGATE_TARGETS__CLOUD__ENDPOINTS", '["https://gpu.example"]')
    found = loaded(tmp_path, "listen: {port: 8181, host: localhost}\n")
    assert (found.listen.port, found.listen.host) == (9191, "localhost")
    assert found.targets["cloud"].endpoints == ("https://gpu.example",)


def test_a_credential_is_read_from_its_file_and_stands_in_no_repr(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("sk-very-secret\n", encoding="utf-8")
    found = loaded(tmp_path, f"targets:\n  cloud: {{credential: {{file: {secret}}}}}\n")
    assert found.targets["cloud"].credential_headers() == {"authorization": "Bearer sk-very-secret"}
    assert "sk-very-secret" not in repr(found) + str(found.model_dump())


def test_a_credential_that_is_not_there_is_named(tmp_path: Path) -> None:
    found = loaded(tmp_path, f"targets:\n  cloud: {{credential: {{file: {tmp_path / 'none'}}}}}\n")
    with pytest.raises(ValueError, match="none"):
        found.targets["cloud"].credential_headers()


def test_a_host_that_is_not_loopback_starts_with_keys(tmp_path: Path) -> None:
    key = f"{{id: app1, secret_sha256: {'0' * 64}, tenant: t}}"
    assert loaded(tmp_path, f"listen: {{host: 0.0.0.0}}\nauth: {{keys: [{key}]}}\n").auth.keys[0].tenant == "t"


def test_reading_pictures_takes_the_models_that_do_it() -> None:
    with pytest.raises(ValidationError, match=r"ocr-detection and ocr-recognition among `edge.tensor_models`"):
        Settings.model_validate({"detectors": {"pictures": {}}})
    read = {"detectors": {"pictures": {}}, "edge": {"tensor_models": ["ocr-detection", "ocr-recognition"]}}
    assert Settings.model_validate(read).detectors.pictures
    elsewhere = {"detectors": {"pictures": {"endpoint": "unix:/run/models.sock"}}}
    assert Settings.model_validate(elsewhere).detectors.pictures
