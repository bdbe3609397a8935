"""The Dockerfile: what a linter says of it, what its images are and hold. No engine is here to build them."""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from deploy.tests.programs import run
from tests.test_house import PACKAGES, tracked_files

DOCKERFILE = Path("deploy/docker/Dockerfile")
CHECK = Path("deploy/docker/healthcheck.py")


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.M).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines()) if word]


def stage(name: str) -> list[tuple[str, str]]:
    """The instructions of a stage and of those that it is made of."""
    found, inside = [], False
    for word, rest in instructions():
        if word == "FROM":
            inside = rest.endswith(f" AS {name}")
            base = rest.split()[0]
            found += stage(base) if inside and not base.startswith("$") else []
        elif inside:
            found.append((word, rest))
    return found


def sources() -> list[Path]:
    copied = [shlex.split(rest)[:-1] for word, rest in stage("build") if word == "COPY"]
    return [Path(each) for names in copied for each in names]


def test_the_linter_has_nothing_to_say_against_it() -> None:
    done = run("hadolint", "--failure-threshold", "style", str(DOCKERFILE))

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("image", ["gateway", "edge"])
def test_an_image_runs_as_nobody_in_particular_and_says_whether_it_lives(image: str) -> None:
    said = dict(stage(image))

    assert said["USER"] == "65532:65532"
    assert "/livez" in said["HEALTHCHECK"]
    assert said["ENTRYPOINT"] == '["tidegate"]'
    assert "TIDEGATE_STATE_DIR=/var/lib/tidegate" in said["ENV"]
    assert "org.opencontainers.image.licenses" in said["LABEL"]


def test_the_base_is_taken_by_its_digest_and_nothing_is_fetched_by_its_address() -> None:
    bases = [rest.split()[0] for word, rest in instructions() if word == "FROM"]

    assert {each for each in bases if "$" in each} == {"${PYTHON_IMAGE}@${PYTHON_DIGEST}"}
    assert ("ARG", "PYTHON_DIGEST") in instructions()
    assert not [rest for word, rest in instructions() if word == "ADD" or "://" in rest]


def test_no_secret_is_given_to_a_build() -> None:
    given = [rest for word, rest in instructions() if word in {"ARG", "ENV"}]

    assert not [each for each in given if re.search(r"token|secret|password|key|credential", each, re.IGNORECASE)]


def test_whatever_is_copied_is_there_and_let_through() -> None:
    allowed = {line[1:] for line in Path(".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert sources()
    assert {str(each) for each in sources()} == allowed
    assert [each for each in sources() if not each.exists()] == []


def test_the_packages_of_a_build_are_installed_by_hash_alone() -> None:
    installed = [rest for word, rest in stage("build") if word == "RUN" and "pip install" in rest]

    assert len(installed) == 2
    assert all("--require-hashes" in each or "--no-index --no-deps" in each for each in installed)


def test_what_is_built_of_the_copied_files_is_the_whole_of_tidegate(tmp_path: Path) -> None:
    for each in sources():
        copy = shutil.copytree if each.is_dir() else shutil.copy
        copy(each, tmp_path / each.name)
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "-w", str(tmp_path / "wheels")]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(tmp_path)], check=True, timeout=100)
    [wheel] = (tmp_path / "wheels").glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    root = Path.cwd()
    tracked = {path.relative_to(root).as_posix() for path in tracked_files()}

    assert {each for each in tracked if each.partition("/")[0] in PACKAGES} <= held


@pytest.mark.parametrize(("status", "code"), [("200 OK", 0), ("503 Service Unavailable", 1)])
def test_a_program_lives_where_it_answers_on_its_socket(tmp_path: Path, status: str, code: int) -> None:
    address = str(tmp_path / "edge.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        done = run("python", str(CHECK), address, "/readyz")
        thread.join(10)

    assert (done.returncode, done.stdout.strip()) == (code, f"HTTP/1.1 {status}")
    assert run("python", str(CHECK), address, "/readyz").returncode == 1
