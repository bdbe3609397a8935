"""The bundle for machines without a network: made here, installed and asked where there is no route anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.airgap.bundle import make
from deploy.tests.programs import program, run
from gateway.settings import default_state_dir
from serving.signatures import PrivateKey
from tests.test_house import PROJECT, normalized, pins

MODEL = "smollm2-135m-instruct-q4_1"
SETTINGS = """
targets: {cloud: null}
policy: %s
edge: {embedding_model: null}
"""
POLICY = """
apiVersion: tidegate/v1
name: alone
targets:
  edge: {kind: edge, clearance: restricted}
"""


@dataclass
class Bundle:
    folder: Path
    key: str


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    model = default_state_dir() / "models" / MODEL
    assert model.is_dir(), "make models"
    folder, key = tmp_path_factory.mktemp("bundle"), PrivateKey.make()
    make(folder, key, {MODEL: model})
    return Bundle(folder, key.public.text)


@pytest.mark.timeout(420)
def test_what_is_installed_without_a_network_answers(bundle: Bundle, tmp_path: Path) -> None:
    settings, policy, state = tmp_path / "tidegate.yaml", tmp_path / "policy.yaml", tmp_path / "state"
    settings.write_text(SETTINGS % policy)
    policy.write_text(POLICY)
    state.mkdir(mode=0o700)
    apart = [program("unshare"), "--map-root-user", "--net", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets nobody make a network namespace")
    command = [*apart, "sh", "deploy/tests/offline.sh", bundle.folder, bundle.key, tmp_path / "prefix", state, settings]
    done = subprocess.run(
        [str(each) for each in command],
        env={"PATH": os.environ["PATH"], "PYTHON": sys.executable, "HOME": str(tmp_path), "XDG_STATE_HOME": str(state)},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )

    assert done.returncode == 0, done.stderr + done.stdout
    assert '"edge"' in done.stdout


@pytest.mark.parametrize("fault", ["another key", "another file", "another list"])
def test_nothing_is_installed_of_a_bundle_that_is_not_as_it_was_signed(
    bundle: Bundle, tmp_path: Path, fault: str
) -> None:
    run("cp", "-r", str(bundle.folder), str(tmp_path / "copy"))
    copy, key = tmp_path / "copy", bundle.key
    if fault == "another key":
        key = PrivateKey.make().public.text
    elif fault == "another file":
        (copy / "models" / MODEL / "tokenizer.json").write_text("{}")
    else:
        (copy / "SHA256SUMS").write_text("")

    done = run("sh", str(copy / "install.sh"), key, str(tmp_path / "prefix"), str(tmp_path / "state"))

    assert done.returncode == 1
    assert "nothing was installed" in done.stderr
    assert not (tmp_path / "prefix").exists()


def test_every_wheel_and_model_is_in_the_bill_of_materials(bundle: Bundle) -> None:
    text = (bundle.folder / "sbom.cdx.json").read_text()
    told = {each["name"]: each["hashes"][0]["content"] for each in json.loads(text)["components"]}
    sums = dict(reversed(line.split("  ")) for line in (bundle.folder / "SHA256SUMS").read_text().splitlines())
    wheels = {normalized(Path(path).name.split("-")[0]): sum_ for path, sum_ in sums.items() if path.endswith(".whl")}

    assert told == wheels | {MODEL: sums[f"models/{MODEL}/manifest.json"]}
    assert {"tidegate", "onnxruntime", "fastapi"} <= wheels.keys()


def test_the_lock_holds_what_the_constraints_say() -> None:
    lines = Path("deploy/requirements.txt").read_text().splitlines()
    locked = dict(line.removesuffix(" \\").split("==") for line in lines if "==" in line)

    assert locked.items() <= {normalized(name): version for name, version in pins().items()}.items()
    assert {normalized(each) for each in PROJECT["project"]["dependencies"]} <= locked.keys()
