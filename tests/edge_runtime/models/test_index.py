"""Wheels of a package index: found by its listing and fetched as files are, or by pip where it is set up otherwise."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from edge_runtime.models.errors import ContentRefused, NoSpace, SourceUnavailable
from edge_runtime.models.sources.index import index_of, pip_configuration
from edge_runtime.models.store import ModelStore
from tests.edge_runtime.models.conftest import Pull, nothing_is_visible, packaged, write_wheel
from tests.support.model_host import ModelHost, cut_after


def wheel_of(folder: Path, files: dict[str, bytes]) -> Path:
    """A wheel that pip takes for one, which asks for what there is not."""
    inside = {f"tiny_model/{name}": content for name, content in files.items()}
    metadata = b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Dist: does-not-exist\n"
    inside |= {"tiny_model-1.0.dist-info/METADATA": metadata, "tiny_model-1.0.dist-info/RECORD": b""}
    inside |= {"tiny_model-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    return write_wheel(folder / "tiny_model-1.0-py3-none-any.whl", inside)


def set_up_pip(monkeypatch: pytest.MonkeyPatch, **options: str) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in ({"CONFIG_FILE": os.devnull} | options).items():
        monkeypatch.setenv(f"PIP_{name}", value)


def list_on_an_index(host: ModelHost, wheel: Path, **changes: object) -> None:
    content = wheel.read_bytes()
    file = {"filename": wheel.name, "url": "../../files/the.whl", "size": len(content)}
    file |= {"hashes": {"sha256": hashlib.sha256(content).hexdigest()}} | changes
    host.files["/files/the.whl"] = content
    listing = json.dumps({"meta": {"api-version": "1.0"}, "name": "tiny-model", "files": [file]}).encode()
    host.files["/simple/tiny-model/"] = listing
    host.types["/simple/tiny-model/"] = "application/vnd.pypi.simple.v1+json"


def test_pip_fetches_a_wheel_alone_from_wherever_it_is_set_up(
    store: ModelStore, pull: Pull, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    wheel_of(index, packaged(tmp_path / "p"))
    set_up_pip(monkeypatch, NO_INDEX="1", FIND_LINKS=str(index))
    assert pull("pypi:tiny-model==1.0", dev=True).active
    with pytest.raises(SourceUnavailable, match="pip could not fetch tiny-model==2"):
        pull("pypi:tiny-model==2.0", dev=True)


def test_a_wheel_of_a_plain_index_is_gone_on_with_where_it_was_cut_off(
    host: ModelHost, pull: Pull, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_on_an_index(host, wheel_of(tmp_path, packaged(tmp_path / "p", content=os.urandom(4000))))
    set_up_pip(monkeypatch, INDEX_URL=f"{host.url}/simple")
    host.next_answers["/files/the.whl"].append(cut_after(100_000))
    assert pull("pypi:Tiny.model==1.0", dev=True).active
    assert [headers.get("range") for headers in host.asked_for("/files/the.whl")] == [None, "bytes=100000-"]


def test_a_wheel_that_does_not_fit_or_is_another_is_refused(
    host: ModelHost, pull: Pull, store: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = wheel_of(tmp_path, packaged(tmp_path / "p"))
    set_up_pip(monkeypatch, INDEX_URL=f"{host.url}/simple")
    list_on_an_index(host, wheel, size=1 << 60)
    with pytest.raises(NoSpace, match="MiB free"):
        pull("pypi:tiny-model==1.0", dev=True)
    list_on_an_index(host, wheel, hashes={"sha256": "0" * 64})
    with pytest.raises(ContentRefused, match="was promised"):
        pull("pypi:tiny-model==1.0", dev=True)
    assert nothing_is_visible(store)


@pytest.mark.parametrize(
    ("configuration", "index"),
    [
        ({"global.index-url": "https://one/s", ":env:.index-url": "https://two/s"}, "https://two/s"),
        ({"global.index-url": "https://one/s", "install.index-url": "https://two/s"}, "https://one/s"),
        ({"global.index-url": "https://user:secret@one/s"}, None),
        ({"global.index-url": "file:///srv/index"}, None),
        ({"global.extra-index-url": "https://two/s"}, None),
        ({":env:.no-index": "1"}, None),
        ({":env:.find-links": "/wheels"}, None),
    ],
)
def test_where_pip_means_more_than_one_plain_index_it_is_left_to_pip(configuration: dict, index: str | None) -> None:
    assert index_of(configuration) == index


def test_without_any_configuration_it_is_the_index_that_pip_itself_names(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up_pip(monkeypatch)
    assert str(index_of(pip_configuration())).startswith("https://")
