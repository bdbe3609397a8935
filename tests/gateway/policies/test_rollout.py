"""Reloading, going back, last good ones and trials, on real files and a real state folder."""

from __future__ import annotations

import asyncio
import os
import tracemalloc
from pathlib import Path

import pytest

from gateway.policies.document import Document, read_settled_document
from gateway.policies.holder import InForce, PolicyHolder, StickyBy
from gateway.policies.offers import By
from gateway.policies.start import begin
from gateway.policies.store import VersionStore
from gateway.policies.watch import PolicyWatch
from inference_protocol.errors import InvalidRequest
from routing_policies.policy.errors import PolicyError
from tests.support.policy_site import DEMANDS, ME, Site, clearance, policy
from tests.support.waiting import until


@pytest.fixture
def site(tmp_path: Path) -> Site:
    found = Site(tmp_path)
    found.file.write_text(policy())
    return found


async def test_a_reload_puts_in_force_what_the_file_holds_and_keeps_it_as_a_version(site: Site) -> None:
    rollout = site.start()
    site.file.write_text(policy("public"))

    change = await rollout.reload(ME)

    assert (change.became, change.number, change.looser) == ("in_force", 2, ())
    assert clearance(rollout) == "public"
    last = site.store.last_in_force
    assert last is not None
    assert (last.number, last.who, last.why, last.looser) == (2, "ada", "a test", False)
    assert (await rollout.reload(ME)).became == "unchanged"
    assert all(path.stat().st_mode & 0o077 == 0 for path in (site.folder / "policies").rglob("*"))


async def test_what_is_looser_is_told_with_a_request_to_explain(site: Site) -> None:
    rollout = site.start()
    site.file.write_text(policy("restricted"))

    change = await rollout.reload(ME)

    assert {(one.target, one.data_class) for one in change.looser} == {
        ("cloud", "confidential"),
        ("cloud", "restricted"),
    }
    assert change.looser[0].example is not None
    assert change.looser[0].example["headers"]["x-data-class"] == "confidential"
    assert rollout.last_change == change


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (policy().replace("clearance: internal", "clearence: internal").encode(), (6, 24)),
        (policy().encode()[:-9], (6, 36)),
        (b"", (1, 1)),
        (b"\xff\xfe", (1, 1)),
        (b"x" * (1 << 20), (1, 1)),
        (policy(more="prefer: [{id: p, target: other, weight: 0.1}]\n").encode(), (7, 26)),
        (policy(more="tests: [{name: t, expect: {target: cloud, eligible: []}}]\n").encode(), (7, 9)),
        (policy(more="invariants: [{id: i, require: 'target.kind == \"edge\"'}]\n").encode(), (7, 14)),
        (policy().replace("cloud:", "clout:").encode(), (6, 3)),
    ],
)
async def test_a_bad_file_leaves_the_last_good_policy_in_force_and_says_where_it_is_wrong(
    site: Site, content: bytes, place: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    rollout = site.start()
    before = rollout.holder.in_force
    site.file.write_bytes(content)

    with pytest.raises(PolicyError):
        await rollout.reload(ME)

    assert rollout.holder.in_force is before
    assert rollout.stale is not None
    assert (rollout.stale.fault.line, rollout.stale.fault.column) == place
    assert f"{site.file}:{place[0]}:{place[1]}" in caplog.text
    assert rollout.stale_s > 0
    site.file.write_text(policy())
    await rollout.reload(ME)
    assert rollout.stale is None


async def test_a_file_that_is_gone_or_cannot_be_read_leaves_the_last_good_policy(site: Site) -> None:
    rollout = site.start()
    site.file.unlink()
    with pytest.raises(PolicyError, match="no such file"):
        await rollout.reload(ME)
    site.file.mkdir()
    with pytest.raises(PolicyError, match="cannot be read"):
        await rollout.reload(ME)

    assert clearance(rollout) == "internal"


async def test_the_end_of_a_policy_without_a_mark_cannot_get_lost_unseen(site: Site) -> None:
    more = "constraints: [{id: no-cloud, when: 'request.tools', deny: [cloud]}]\nprefer: []\n"
    site.file.write_text(policy(more=more))
    rollout = site.start()

    for text in (policy(), policy(more="constraints: []\n").replace("constraints: []\n", "weights: {cost: 1}\n")):
        site.file.write_text(text)
        with pytest.raises(PolicyError, match="cut off"):
            await rollout.reload(ME)
        assert [rule.id for rule in rollout.holder.current.constraints] == ["no-cloud"]

    site.file.write_text(f"---\n{policy()}...\n")
    assert (await rollout.reload(ME)).looser


async def test_an_operator_goes_back_and_the_same_file_does_not_undo_it(site: Site) -> None:
    rollout = site.start()
    site.file.write_text(policy("public"))
    await rollout.reload(ME)

    change = await rollout.rollback(By("ben", "too strict"))

    assert (change.became, change.number) == ("in_force", 1)
    assert clearance(rollout) == "internal"
    assert (await rollout.reload(By("file"), only_if_changed=True)).became == "unchanged"
    assert clearance(rollout) == "internal"
    # Also not at a restart.
    assert clearance(site.start()) == "internal"
    # Whoever asks for the file gets it.
    assert (await rollout.reload(ME)).number == 2


async def test_a_clock_that_was_set_back_does_not_change_which_version_was_before(site: Site) -> None:
    rollout = site.start()
    for word in ("public", "confidential"):
        site.now -= 1_000_000
        site.file.write_text(policy(word))
        await rollout.reload(ME)

    assert (await rollout.rollback(ME)).number == 2
    assert clearance(rollout) == "public"
    await rollout.activate(1, ME)
    assert (await rollout.rollback(ME)).number == 2, "in force more recently than 3"


async def test_a_pipe_in_the_place_of_the_file_is_refused_and_not_waited_for(site: Site) -> None:
    rollout = site.start()
    site.file.unlink()
    os.mkfifo(site.file)

    with pytest.raises(PolicyError, match="it is a pipe"):
        await asyncio.wait_for(rollout.reload(ME), 5)
    assert clearance(rollout) == "internal"


async def test_a_line_in_a_text_that_looks_like_a_beginning_does_not_make_a_policy_whole(site: Site) -> None:
    test = "tests:\n  - name: |\n      a\n      ---\n    expect: {eligible: [edge]}\n"
    rule = "constraints: [{id: none, deny: [cloud]}]\n"
    site.file.write_text(policy(more=test + rule))
    rollout = site.start()
    site.file.write_text(policy(more=test).replace("[edge]", "[edge, cloud]"))

    with pytest.raises(PolicyError, match="lacks its `constraints`"):
        await rollout.reload(ME)


async def test_what_is_in_force_is_not_tried_beside_itself(site: Site) -> None:
    rollout = site.start()
    same = Document.of("same", site.file.read_bytes())

    assert (await rollout.start_canary(same, 50, StickyBy.TENANT, ME)).became == "unchanged"
    assert (await rollout.start_shadow(same, 50, ME)).became == "unchanged"
    assert (rollout.holder.in_force.canary, rollout.holder.in_force.shadow) == (None, None)


async def test_what_cannot_be_written_down_ends_no_trial(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    rollout = site.start()
    await rollout.start_shadow(Document.of("s", policy("public").encode()), 100, ME)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(VersionStore, "append", full)
    with pytest.raises(PolicyError, match="No space left on device; nothing has changed"):
        await rollout.end_shadow(ME)
    assert rollout.holder.in_force.shadow is not None


async def test_a_version_that_is_not_there_is_refused_with_those_that_are(site: Site) -> None:
    rollout = site.start()
    with pytest.raises(InvalidRequest, match="there are 1"):
        await rollout.activate(7, ME)
    with pytest.raises(InvalidRequest, match="the first"):
        await rollout.rollback(ME)


async def test_a_version_that_was_damaged_on_disk_is_not_put_in_force(site: Site) -> None:
    rollout = site.start()
    site.file.write_text(policy("public"))
    await rollout.reload(ME)
    for path in (site.folder / "policies" / "objects").iterdir():
        path.write_bytes(path.read_bytes() + b"\n")

    with pytest.raises(PolicyError, match="damaged"):
        await rollout.rollback(ME)
    assert clearance(rollout) == "public"


async def test_a_restart_with_a_broken_file_starts_with_the_last_good_policy_and_says_so(site: Site) -> None:
    site.start()
    site.file.write_text("name: [")

    rollout = site.start()

    assert clearance(rollout) == "internal"
    assert rollout.stale is not None


def test_a_first_start_with_a_broken_file_is_refused(site: Site) -> None:
    site.file.write_text("name: [")
    with pytest.raises(PolicyError, match="not YAML"):
        site.begin()


def test_the_last_good_policy_of_another_file_does_not_stand_in(site: Site) -> None:
    site.begin()
    (site.folder / "other.yaml").write_text("name: [")
    with pytest.raises(PolicyError):
        begin(site.store, DEMANDS, str(site.folder / "other.yaml"), site.wall)


def test_a_journal_whose_last_line_was_cut_off_gives_the_one_before(site: Site) -> None:
    site.begin()
    journal = site.folder / "policies" / "journal.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole[: len(whole) // 2])

    site.file.write_text(policy("public"))
    assert site.begin().in_force.stable.number == 2
    assert [entry.number for entry in site.store.history()] == [1, 2]


async def test_what_cannot_be_kept_is_not_put_in_force(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    rollout = site.start()
    site.file.write_text(policy("public"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(VersionStore, "append", full)
    with pytest.raises(PolicyError, match="No space left"):
        await rollout.reload(ME)
    assert clearance(rollout) == "internal"


async def test_a_canary_decides_for_its_share_until_it_is_promoted_or_ended(site: Site) -> None:
    rollout = site.start()
    document = Document.of("c", policy("public", name="candidate").encode())

    change = await rollout.start_canary(document, 25, StickyBy.TENANT, ME)

    assert change.became == "canary"
    drawn = [rollout.holder.in_force.deciding(seed)[0].number for seed in range(0, 10_000, 100)]
    assert drawn.count(2) == 25
    assert site.start().holder.in_force.canary is not None, "it outlives a restart"
    await rollout.end_canary(ME)
    assert rollout.holder.in_force.canary is None
    await rollout.start_canary(document, 25, StickyBy.TENANT, ME)
    assert (await rollout.promote_canary(ME)).became == "in_force"
    assert rollout.holder.in_force.stable.loaded.policy.name == "candidate"
    assert rollout.holder.in_force.canary is None
    with pytest.raises(InvalidRequest):
        await rollout.end_canary(ME)


async def test_another_stable_policy_ends_the_canary_that_was_compared_with_the_one_before(site: Site) -> None:
    rollout = site.start()
    await rollout.start_canary(Document.of("c", policy("public").encode()), 50, StickyBy.TENANT, ME)
    site.file.write_text(policy("internal", more="prefer: []\n"))

    await rollout.reload(ME)

    assert rollout.holder.in_force.canary is None


async def test_the_watch_takes_up_renames_links_that_are_swapped_and_writes_in_place(site: Site) -> None:
    real, link = site.folder / "v1", site.folder / "data"
    real.mkdir()
    (real / "policy.yaml").write_text(policy())
    link.symlink_to(real)
    site.file.unlink()
    site.file.symlink_to(link / "policy.yaml")
    rollout = site.start()
    watch = asyncio.create_task(PolicyWatch(rollout, every_s=0.02).run())
    try:
        # As Kubernetes does it for a ConfigMap: a new folder, and a link that is renamed over the old one.
        (site.folder / "v2").mkdir()
        (site.folder / "v2" / "policy.yaml").write_text(policy("public"))
        (site.folder / "new").symlink_to(site.folder / "v2")
        (site.folder / "new").replace(link)
        await until(lambda: clearance(rollout) == "public")
        # As editors do it.
        (site.folder / "aside").write_text(policy("internal"))
        (site.folder / "aside").replace(site.file)
        await until(lambda: clearance(rollout) == "internal")
        # In place, half first.
        with site.file.open("w") as file:
            file.write(policy("public")[:60])
            file.flush()
            await until(lambda: rollout.stale is not None)
            assert clearance(rollout) == "internal"
            file.write(policy("public")[60:])
        await until(lambda: clearance(rollout) == "public")
    finally:
        watch.cancel()


async def test_a_file_that_flaps_and_a_storm_of_signals_end_with_what_the_file_holds(site: Site) -> None:
    rollout = site.start()
    watch = PolicyWatch(rollout, every_s=0.01)
    running = asyncio.create_task(watch.run())
    try:
        for index in range(60):
            site.file.write_text(["name: [", policy("public"), policy("internal")][index % 3])
            watch.ask()
            await asyncio.sleep(0.005)
        await until(lambda: rollout.stale is None and clearance(rollout) == "internal")
    finally:
        running.cancel()


async def test_memory_does_not_grow_with_reloads(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.policies.document._BETWEEN_READS_S", 0.0)
    monkeypatch.setattr("gateway.policies.admission._logger.disabled", True)  # what it says is kept by the test itself
    rollout = site.start()

    async def reload(times: int) -> None:
        for index in range(times):
            site.file.write_text(policy("public" if index % 2 else "internal"))
            await rollout.reload(ME)

    await reload(40)
    tracemalloc.start()
    try:
        await reload(20)
        before, _ = tracemalloc.get_traced_memory()
        await reload(200)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 256 << 10
    assert len(site.store.versions) == 2


def test_what_is_in_force_is_replaced_as_a_whole(site: Site) -> None:
    holder = PolicyHolder(site.begin().in_force)
    before = holder.in_force
    holder.put(InForce(before.stable, None, None))

    assert holder.current is before.stable.loaded
    assert holder.in_force is not before


def test_a_file_is_taken_once_it_reads_the_same_twice(site: Site) -> None:
    writes = iter([policy("public")[:50], policy("public")[:90], policy("public")])

    def pause(_: float) -> None:
        text = next(writes, None)
        if text is not None:
            site.file.write_text(text)

    assert read_settled_document(str(site.file), pause).text == policy("public")


def test_a_file_that_never_stays_the_same_is_refused(site: Site) -> None:
    with pytest.raises(PolicyError, match="changes all the time"):
        read_settled_document(str(site.file), lambda _: site.file.write_text(f"# {site.wall()}\n"))


async def test_a_trial_that_was_lost_on_disk_does_not_keep_the_gateway_from_starting(site: Site) -> None:
    rollout = site.start()
    await rollout.start_shadow(Document.of("s", policy("public").encode()), 10, ME)
    shadow = site.start().holder.in_force.shadow
    assert shadow is not None
    assert shadow.percent == 10
    (site.folder / "policies" / "objects" / shadow.version.sha256).unlink()

    assert site.start().holder.in_force.shadow is None
    (site.folder / "policies" / "trials.json").write_text("{")
    assert clearance(site.start()) == "internal"
