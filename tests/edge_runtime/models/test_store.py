"""Versions: published, activated, rolled back, removed, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edge_runtime.models.errors import InUse, NoSuchModel, NothingToRollBack
from edge_runtime.models.keys import distrust, own_key
from edge_runtime.models.store import ModelStore
from runtime_server import model_manifest
from runtime_server.model_manifest import ModelDamaged, ModelMissing
from runtime_server.model_signature import Untrusted
from serving.signatures import KeyUnusable
from tests.edge_runtime.models.conftest import Publish, write_model

HOLD = """
import sys
from pathlib import Path
from edge_runtime.models.store import ModelStore
lease = ModelStore(Path(sys.argv[1])).lease("tiny")
print(lease.folder.name, flush=True)
sys.stdin.read()
"""


def test_what_is_published_is_served_only_once_it_is_activated(store: ModelStore, publish: Publish) -> None:
    first = publish(b"one")
    assert (store.names(), store.active("tiny"), first.active) == (["tiny"], None, False)
    store.activate(first)
    second = publish(b"two")
    active = store.active("tiny")
    assert active is not None
    assert (active.id, [v.id for v in store.versions("tiny")]) == (first.id, [first.id, second.id])
    assert (store.root / "tiny" / "model.onnx").read_bytes() == b"one" * 64
    store.activate(second)
    assert (store.root / "tiny" / "model.onnx").read_bytes() == b"two" * 64


def test_rollback_goes_back_one_version_at_a_time_and_says_when_none_is_left(
    store: ModelStore, publish: Publish
) -> None:
    ids = [store.activate(publish(content)).id for content in (b"one", b"two", b"three")]
    assert store.rollback("tiny").id == ids[1]
    assert store.rollback("tiny").id == ids[0]
    with pytest.raises(NothingToRollBack):
        store.rollback("tiny")
    store.activate(store.find(f"tiny@{ids[2]}"))
    assert store.rollback("tiny").id == ids[0]


def test_rollback_passes_over_a_version_that_was_removed(store: ModelStore, publish: Publish) -> None:
    one, two, _ = (store.activate(publish(content)) for content in (b"one", b"two", b"three"))
    store.remove(store.find(f"tiny@{two.id}"))
    assert store.rollback("tiny").id == one.id


def test_an_active_version_is_not_removed(store: ModelStore, publish: Publish) -> None:
    version = store.activate(publish(b"one"))
    with pytest.raises(InUse, match="active"):
        store.remove(version)
    assert store.active("tiny") == version


def test_what_a_process_holds_is_not_removed_until_the_process_is_gone(store: ModelStore, publish: Publish) -> None:
    held = store.activate(publish(b"one"))
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(store.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == held.id
        store.activate(publish(b"two"))
        held = store.find(f"tiny@{held.id}")
        with pytest.raises(InUse, match="running process"):
            store.remove(held)
        with pytest.raises(InUse, match="running process"):
            store.remove_all("tiny")
        assert [v.active for v in store.versions("tiny")] == [False, True]
        holder.kill()
        holder.wait()
    store.remove(held)
    assert len(store.versions("tiny")) == 1
    store.remove_all("tiny")
    assert store.names() == []
    assert {path.name for path in store.root.iterdir()} == {".versions"}


def test_a_lease_stays_with_its_version_when_the_name_is_switched(store: ModelStore, publish: Publish) -> None:
    store.activate(publish(b"one"))
    with store.lease("tiny") as lease:
        store.activate(publish(b"two"))
        assert (lease.folder / "model.onnx").read_bytes() == b"one" * 64
    with pytest.raises(ModelMissing):
        store.lease("other")


def test_an_unsigned_version_is_activated_only_where_anything_may_run(store: ModelStore, publish: Publish) -> None:
    unsigned = publish(b"one", signed=False)
    with pytest.raises(Untrusted, match="tidegate models keys add"):
        store.activate(unsigned)
    assert store.active("tiny") is None
    assert ModelStore(store.root, dev=True).activate(unsigned).active


def test_rollback_asks_for_a_trusted_signature_too(store: ModelStore, publish: Publish) -> None:
    store.activate(publish(b"one"))
    second = store.activate(publish(b"two"))
    distrust(store.keys, "this-box")
    with pytest.raises(Untrusted):
        store.rollback("tiny")
    assert store.active("tiny") == second


def test_a_manifest_that_was_changed_after_it_was_signed_is_refused(store: ModelStore, publish: Publish) -> None:
    version = publish(b"one")
    manifest = version.folder / model_manifest.FILE_NAME
    manifest.write_bytes(manifest.read_bytes().replace(b'"window": 64', b'"window": 65'))
    with pytest.raises(ModelDamaged, match="not the one that was published"):
        store.activate(version)
    version.folder.rename(version.folder.with_name(model_manifest.manifest_id(version.folder)))
    (changed,) = store.versions("tiny")
    with pytest.raises(Untrusted, match="was changed"):
        store.activate(changed)


@pytest.mark.parametrize("name", ["chat_template.jinja", "deep/extra.bin"])
def test_a_file_that_the_manifest_does_not_list_is_refused(store: ModelStore, publish: Publish, name: str) -> None:
    version = publish(b"one")
    (version.folder / name).parent.mkdir(exist_ok=True)
    (version.folder / name).write_text("{{ evil }}", encoding="utf-8")
    with pytest.raises(ModelDamaged, match="not among the files"):
        store.activate(version)


def test_zeroed_weights_are_refused(store: ModelStore, publish: Publish) -> None:
    version = publish(b"one")
    weights = version.folder / "model.onnx"
    weights.write_bytes(bytes(weights.stat().st_size))
    with pytest.raises(ModelDamaged, match=r"model\.onnx"):
        store.activate(version)


def test_a_folder_from_before_there_were_versions_is_served_and_adopted(store: ModelStore, publish: Publish) -> None:
    folder = write_model(store.root / "tiny", content=b"old")
    before = store.active("tiny")
    assert before is not None
    assert (before.folder, store.names()) == (folder, ["tiny"])
    new = publish(b"new")
    adopted = store.active("tiny")
    assert adopted is not None
    assert (adopted.id, adopted.folder.parent) == (before.id, new.folder.parent)
    assert (folder / "model.onnx").read_bytes() == b"old" * 64
    store.activate(new)
    assert ModelStore(store.root, dev=True).rollback("tiny").id == before.id


def test_an_adoption_that_was_cut_off_between_its_renames_is_finished(store: ModelStore) -> None:
    folder = write_model(store.root / "tiny")
    id_ = model_manifest.manifest_id(folder)
    versions = store.root / ".versions" / "tiny"
    versions.mkdir(parents=True)
    (versions / "next").symlink_to(Path(".versions", "tiny", id_))
    folder.rename(versions / id_)
    assert store.active("tiny") is None
    store.sweep()
    active = store.active("tiny")
    assert active is not None
    assert active.id == id_


def test_an_incomplete_folder_makes_way_for_the_first_version(store: ModelStore, publish: Publish) -> None:
    (store.root / "tiny").mkdir(parents=True)
    (store.root / "tiny" / "half").touch()
    store.activate(publish(b"one"))
    assert (store.root / "tiny").is_symlink()
    assert not (store.root / "tiny" / "half").exists()


def test_publishing_the_same_version_again_changes_nothing_but_who_signed_it(
    store: ModelStore, publish: Publish
) -> None:
    first = publish(b"one", signed=False)
    with pytest.raises(Untrusted):
        store.activate(first)
    again = publish(b"one")
    assert [v.id for v in store.versions("tiny")] == [first.id] == [again.id]
    store.activate(again)


@pytest.mark.parametrize(
    ("reference", "said"),
    [("../etc", "names no model"), ("tiny@zz", "names no model"), ("tiny@ffff", "no versions"), ("none", "no model")],
)
def test_a_reference_that_fits_nothing_says_why(store: ModelStore, publish: Publish, reference: str, said: str) -> None:
    store.activate(publish(b"one"))
    with pytest.raises(NoSuchModel, match=said):
        store.find(reference)


def test_a_model_without_an_active_version_says_which_versions_there_are(store: ModelStore, publish: Publish) -> None:
    version = publish(b"one")
    with pytest.raises(NoSuchModel, match=version.reference):
        store.find("tiny")


def test_publishing_a_version_again_mends_what_was_damaged_of_it(
    store: ModelStore, publish: Publish, tmp_path: Path
) -> None:
    version = store.activate(publish(b"one"))
    (version.folder / "model.onnx").write_bytes(bytes(192))
    (version.folder / "tokenizer.json").unlink()
    (version.folder / "added.jinja").write_text("not listed", encoding="utf-8")
    (version.folder / "manifest.json").write_text("{}", encoding="utf-8")
    again = write_model(tmp_path / "again", content=b"one")
    assert store.publish(again).id == version.id
    store.find("tiny").verify()
    assert store.vouchers(version) == ["this-box"]


def test_a_key_that_others_may_read_signs_nothing(store: ModelStore, publish: Publish) -> None:
    publish(b"one")
    (store.keys / "this-box.pem").chmod(0o640)
    with pytest.raises(KeyUnusable, match="chmod 600"):
        own_key(store.keys)


def test_this_machines_own_key_is_made_anew_once_it_is_trusted_no_more(store: ModelStore, publish: Publish) -> None:
    one = publish(b"one")
    distrust(store.keys, "this-box")
    with pytest.raises(Untrusted):
        store.activate(one)
    assert store.vouchers(store.activate(publish(b"two"))) == ["this-box"]
    store.sign(one, own_key(store.keys))
    assert store.activate(one).active
