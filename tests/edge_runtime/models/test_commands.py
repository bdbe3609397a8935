"""`tidegate models ...` as a person uses it: processes, exit codes, JSON."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edge_runtime.generation.engine import SlotEngine
from edge_runtime.generation.loading import EngineSettings
from edge_runtime.models.errors import what_failed
from edge_runtime.models.keys import trust
from edge_runtime.models.store import ModelStore
from runtime_server.model_signature import Untrusted, read_keys, sign
from runtime_server.trusted_keys import TrustedKeys
from serving.signatures import KeyUnusable, PrivateKey
from tests.edge_runtime.models.conftest import Publish, write_model

PATIENCE_S = 60.0


def tidegate(state_dir: Path, *arguments: object, **environment: str) -> tuple[int, str]:
    return run("gateway.cli", "models", *arguments, TIDEGATE_STATE_DIR=str(state_dir), **environment)


def models(store: ModelStore, *arguments: object) -> tuple[int, str]:
    """What `tidegate models` becomes; half the time to start."""
    return run("edge_runtime.models", "--models-dir", store.root, *arguments)


def run(module: str, *arguments: object, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def test_a_publisher_s_model_comes_is_trusted_replaced_and_brought_back(tmp_path: Path) -> None:
    key, state = tmp_path / "acme.pem", tmp_path / "state"
    store = ModelStore(state / "models")
    status, said = models(store, "keys-new", key)
    assert (status, key.stat().st_mode & 0o777) == (0, 0o600)
    public = said.strip().splitlines()[-1]
    first, second = (write_model(tmp_path / each, content=b"\x08" + each.encode()) for each in ("one", "two"))
    for folder in (first, second):
        sign(folder, PrivateKey.load(key))

    status, said = tidegate(state, "pull", f"file:{first}")
    assert (status, "keys add" in said) == (4, True)
    assert tidegate(state, "keys", "add", "acme", public)[0] == 0
    assert tidegate(state, "pull", f"file:{first}")[0] == 0
    status, said = tidegate(state, "pull", f"file:{second}", "--no-activate")
    assert (status, "not active" in said) == (0, True)
    rows = json.loads(models(store, "list", "--json")[1])
    assert [(row["active"], row["signed_by"]) for row in rows] == [(True, ["acme"]), (False, ["acme"])]
    assert tidegate(state, "activate", rows[1]["version"])[0] == 0
    assert models(store, "remove", "tiny")[0] == 1
    assert rows[0]["version"] in tidegate(state, "rollback", "tiny")[1]
    assert models(store, "remove", rows[1]["version"])[0] == 0
    assert json.loads(models(store, "show", "tiny", "--json")[1])["origin"] == {"pulled": f"file:{first}"}
    assert tidegate(state, "remove", "tiny", "--all")[0] == 0
    assert json.loads(tidegate(state, "list", "--json")[1]) == []


def test_verify_tells_damage_from_a_missing_signature_by_its_exit_status(store: ModelStore, publish: Publish) -> None:
    sound = store.activate(publish(b"one"))
    status, said = models(store, "verify")
    assert (status, f"{sound.reference}: sound, signed by this-box" in said) == (0, True)
    unsigned = publish(b"two", signed=False)
    status, said = models(store, "verify", "--json")
    reports = {report["id"]: report for report in json.loads(said)}
    assert (status, reports[sound.id]["signature_fault"]) == (4, None)
    assert "signed by nobody" in reports[unsigned.id]["signature_fault"]
    for name in ("model.onnx", "tokenizer.json"):
        (sound.folder / name).write_bytes(b"?" * (sound.folder / name).stat().st_size)
    status, said = models(store, "verify", "tiny")
    assert (status, said.count("is not what its manifest says")) == (3, 2)
    assert models(store, "verify", "other")[0] == 1


def test_whoever_signs_a_version_vouches_for_it(store: ModelStore, publish: Publish, tmp_path: Path) -> None:
    version = publish(b"one", signed=False)
    assert models(store, "activate", version.reference)[0] == 4
    assert tidegate(tmp_path, "activate", version.reference, TIDEGATE_MODELS__SIGNATURES="dev")[0] == 0
    assert models(store, "sign", version.reference)[0] == 0
    assert store.vouchers(version) == ["this-box"]
    assert tidegate(tmp_path, "keys", "remove", "this-box")[0] == 0
    assert models(store, "activate", version.reference)[0] == 4


def test_a_key_in_the_settings_is_trusted_like_one_in_the_folder(store: ModelStore, tmp_path: Path) -> None:
    acme = PrivateKey.make()
    sign(write_model(tmp_path / "p", content=b"\x08"), acme)
    trusting = {"TIDEGATE_MODELS__TRUSTED_KEYS": json.dumps({"acme": acme.public.text})}
    status, said = tidegate(tmp_path, "pull", f"file:{tmp_path / 'p'}", **trusting)
    assert status == 0, said
    assert store.active("tiny") is not None
    option = f"--trusted-key=acme={acme.public.text}"
    (listed,) = json.loads(models(store, option, "keys-list", "--json")[1])
    assert (listed["name"], listed["in_settings"]) == ("acme", True)
    status, said = models(store, option, "keys-remove", "acme")
    assert (status, "models.trusted_keys" in said) == (1, True)
    assert models(store, "verify")[0] == 4
    assert models(store, f"--trusted-key=acme={PrivateKey.make().public.text}", "verify")[0] == 4
    assert models(store, option, "verify")[0] == 0


def test_a_version_that_cannot_be_read_is_listed_with_its_fault_in_a_line_of_its_own(
    store: ModelStore, publish: Publish
) -> None:
    sound, other = publish(b"one"), publish(b"two")
    (other.folder / "manifest.json").write_text("{}", encoding="utf-8")
    status, said = models(store, "list")
    rows = [line for line in said.splitlines() if other.reference in line]
    assert (status, len(rows)) == (0, 2)
    assert "?" in rows[0]
    assert "is not the one that was published" in rows[1]
    assert "onnx-genai" in next(line for line in said.splitlines() if sound.reference in line)


def test_two_keys_of_one_name_are_refused(store: ModelStore) -> None:
    trust(store.keys, "acme", PrivateKey.make().public)
    with pytest.raises(KeyUnusable, match="call two keys `acme`"):
        read_keys(TrustedKeys(store.keys, (f"acme={PrivateKey.make().public.text}",)))


async def test_the_engine_loads_nothing_that_no_trusted_key_signed(store: ModelStore, publish: Publish) -> None:
    version = publish(b"one", signed=False)
    engine = SlotEngine(EngineSettings(version.folder, "tiny", trusted_keys=store.trusted))
    with pytest.raises(Untrusted, match="keys add"):
        await engine.start()
    await engine.stop()
    store.remove(version)  # it is not held either


def test_a_full_disk_is_called_that_and_another_failure_names_its_file() -> None:
    assert "The disk is full. Free some of it and try again" in what_failed(OSError(errno.ENOSPC, "No space left"))
    assert what_failed(PermissionError(errno.EACCES, "Permission denied", "keys")) == "keys: Permission denied."


def test_a_model_that_is_not_there_is_said_so_before_anything_is_measured(tmp_path: Path) -> None:
    options = ("--model-dir", tmp_path / "none", "--profile", tmp_path / "device.json")
    status, said = run("edge_runtime.measuring", "bench", *options)
    assert (status, "There is no complete model in" in said, "Measuring" in said) == (1, True, False)
