"""Bundles, and policies that are looser than the one in force: two people must want them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.policies import store
from gateway.policies.bundle import Bundle, read_bundle
from gateway.policies.document import Document
from gateway.policies.examine import Approvers, Demands
from gateway.policies.held import approval
from gateway.policies.holder import StickyBy
from gateway.policies.offers import By
from gateway.policies.rollout import Rollout
from inference_protocol.errors import InvalidRequest
from routing_policies.policy.errors import PolicyError
from serving.signatures import Envelope, PrivateKey
from tests.support.policy_site import DEMANDS, ME, Site, clearance, policy

ADA, BEN, EVE = PrivateKey.make(), PrivateKey.make(), PrivateKey.make()
ADAS_OTHER = PrivateKey.make()
APPROVERS = Approvers({"ada": (ADA.public, ADAS_OTHER.public), "ben": (BEN.public,)})
TARGETS = frozenset({"edge", "cloud"})
FOUR_EYES = Demands(TARGETS, APPROVERS, four_eyes=True)
SIGNED = Demands(TARGETS, APPROVERS, signed=True)
CREATED = datetime(2026, 1, 1, tzinfo=UTC)


def bundle(
    text: str, *keys: PrivateKey, version: int = 1, expires: datetime | None = None, name: str = "site"
) -> bytes:
    made = Bundle.make(text, name, version, CREATED, expires)
    for key in keys:
        made = made.signed(key)
    return made.to_json()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site that was started once with a policy, before anybody asked for signatures."""
    found = Site(tmp_path)
    found.file.write_text(policy("public"))
    found.begin()
    return found


def waiting(rollout: Rollout) -> Envelope:
    held = rollout.held
    assert held is not None
    return approval(held.id, held.offer.document.sha256, held.replaces)


async def test_a_looser_policy_waits_until_two_different_people_have_signed(site: Site) -> None:
    rollout = site.start(FOUR_EYES)
    site.file.write_text(policy("internal"))

    assert (await rollout.reload(ME)).became == "held"
    assert clearance(rollout) == "public"
    assert (await rollout.approve(ADA.sign(waiting(rollout)), ME)).became == "held"
    assert (await rollout.approve(ADAS_OTHER.sign(waiting(rollout)), ME)).became == "held", (
        "the same person's other key"
    )
    assert (await rollout.reload(ME)).became == "held", "it goes on waiting with what was signed"
    change = await rollout.approve(BEN.sign(waiting(rollout)), ME)

    assert change.became == "in_force"
    assert clearance(rollout) == "internal"
    assert rollout.held is None
    last = site.store.last_in_force
    assert last is not None
    assert (last.people, last.looser) == (("ada", "ben"), True)
    assert clearance(site.start(FOUR_EYES)) == "internal", "a restart finds it signed"


async def test_less_protection_waits_for_signatures_though_the_same_targets_may_answer(site: Site) -> None:
    masked = policy("public", more="answers: {scan: mask}\n")
    site.file.write_text(masked)
    rollout = site.start(FOUR_EYES)
    site.file.write_text(policy("public", more="answers: {scan: label}\n"))

    change = await rollout.reload(ME)

    assert change.became == "held"
    assert change.looser[0].words == "`answers.scan` of pii is `label`, and was `mask`"
    assert rollout.holder.current.source.text == masked


async def test_a_stricter_policy_needs_nobody_else_and_ends_the_wait(site: Site) -> None:
    rollout = site.start(FOUR_EYES)
    site.file.write_text(policy("internal"))
    await rollout.reload(ME)
    statement = waiting(rollout)
    site.file.write_text(policy("public", more="constraints: [{id: none, deny: [cloud]}]\n"))

    assert (await rollout.reload(ME)).became == "in_force"

    with pytest.raises(InvalidRequest, match="No policy waits"):
        await rollout.approve(BEN.sign(statement), ME)


@pytest.mark.parametrize("fault", ["stranger", "another wait", "unsigned", "another kind"])
async def test_a_signature_that_does_not_count_leaves_it_waiting(site: Site, fault: str) -> None:
    rollout = site.start(FOUR_EYES)
    site.file.write_text(policy("internal"))
    await rollout.reload(ME)
    statement = waiting(rollout)
    envelope = {
        "stranger": EVE.sign(statement),
        "another wait": BEN.sign(approval("0" * 16, policy_sha(site), rollout.holder.current.digest)),
        "unsigned": statement,
        "another kind": BEN.sign(Envelope("application/json", statement.payload)),
    }[fault]

    with pytest.raises(InvalidRequest):
        await rollout.approve(envelope, ME)
    assert clearance(rollout) == "public"
    assert rollout.held is not None


def policy_sha(site: Site) -> str:
    return Document.of("x", site.file.read_bytes()).sha256


async def test_going_back_to_a_looser_version_waits_too(site: Site) -> None:
    rollout = site.start()
    site.file.write_text(policy("public", more="constraints: [{id: none, deny: [cloud]}]\n"))
    await rollout.reload(ME)
    rollout = site.start(FOUR_EYES)

    assert (await rollout.rollback(ME)).became == "held"
    assert [rule.id for rule in rollout.holder.current.constraints] == ["none"]


async def test_a_looser_canary_waits_and_a_shadow_does_not(site: Site) -> None:
    rollout = site.start(FOUR_EYES)
    looser = Document.of("c", policy("internal").encode())

    assert (await rollout.start_shadow(looser, 100, ME)).became == "shadow"
    assert (await rollout.start_canary(looser, 10, StickyBy.TENANT, ME)).became == "held"
    assert rollout.holder.in_force.canary is None
    await rollout.approve(ADA.sign(waiting(rollout)), ME)
    assert (await rollout.approve(BEN.sign(waiting(rollout)), ME)).became == "canary"
    assert clearance(rollout) == "public"
    assert (await rollout.promote_canary(ME)).became == "in_force", "it was signed when it began"


async def test_a_shadow_that_begins_meanwhile_leaves_the_wait_and_its_signatures(site: Site) -> None:
    rollout = site.start(FOUR_EYES)
    site.file.write_text(policy("internal"))
    await rollout.reload(ME)
    await rollout.approve(ADA.sign(waiting(rollout)), ME)

    await rollout.start_shadow(Document.of("s", policy("restricted").encode()), 100, ME)

    assert (await rollout.approve(BEN.sign(waiting(rollout)), ME)).became == "in_force"


async def test_a_signature_under_a_small_canary_is_of_no_use_for_a_larger_one(site: Site) -> None:
    rollout = site.start(FOUR_EYES)
    looser = Document.of("c", policy("internal").encode())
    await rollout.start_canary(looser, 1, StickyBy.TENANT, ME)
    small = waiting(rollout)
    assert (await rollout.approve(ADA.sign(small), ME)).missing == 1

    change = await rollout.start_canary(looser, 100, StickyBy.TENANT, ME)

    assert (change.became, change.missing, change.signed_by) == ("held", 2, ())
    assert rollout.held is not None
    assert rollout.held.offer.share == "100 % by tenant"
    with pytest.raises(InvalidRequest, match="not the policy that waits now"):
        await rollout.approve(BEN.sign(small), ME)


async def test_the_journal_says_who_signed_and_why(site: Site) -> None:
    rollout = site.start(FOUR_EYES)
    site.file.write_text(policy("internal"))
    await rollout.reload(ME)

    change = await rollout.approve(ADA.sign(waiting(rollout)), By("ops", "the contract covers it"))

    assert (change.signed_by, change.missing) == (("ada",), 1)
    last = site.store.history()[-1]
    assert (last.event, last.people, last.who, last.why) == ("signed", ("ada",), "ops", "the contract covers it")


async def test_a_canary_that_nobody_signed_does_not_outlive_a_restart_that_asks_for_signatures(site: Site) -> None:
    rollout = site.start()
    await rollout.start_canary(Document.of("c", policy("internal").encode()), 10, StickyBy.TENANT, ME)
    assert site.start().holder.in_force.canary is not None

    assert site.start(FOUR_EYES).holder.in_force.canary is None

    signed = site.start(FOUR_EYES)
    await signed.start_canary(Document.of("c", bundle(policy("internal"), ADA, BEN)), 10, StickyBy.TENANT, ME)
    assert site.start(FOUR_EYES).holder.in_force.canary is not None


async def test_a_shadow_without_a_signature_outlives_a_restart(tmp_path: Path) -> None:
    site = Site(tmp_path, now=CREATED.timestamp())
    site.file.write_bytes(bundle(policy("public"), ADA))
    await site.start(SIGNED).start_shadow(Document.of("s", policy("internal").encode()), 100, ME)

    assert site.start(SIGNED).holder.in_force.shadow is not None


def test_a_bundle_that_expires_while_it_is_in_force_stays_over_a_restart(tmp_path: Path) -> None:
    site = Site(tmp_path, now=CREATED.timestamp())
    site.file.write_bytes(bundle(policy(), ADA, expires=CREATED + timedelta(minutes=5)))
    site.start(SIGNED)
    site.now += 3600

    rollout = site.start(SIGNED)

    assert clearance(rollout) == "internal"
    assert rollout.stale is None


async def test_an_old_bundle_stays_out_however_many_other_policies_came_after_the_newest(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "KEPT", 3)
    rollout = site.start()
    old, new = bundle(policy("internal")), bundle(policy("public"), version=2)
    others = [policy("public", more=f"# {number}\n").encode() for number in range(4)]
    for content in (old, new, *others):
        site.file.write_bytes(content)
        await rollout.reload(ME)
    site.file.write_bytes(old)

    for running in (rollout, Rollout(rollout.holder, site.store, DEMANDS, str(site.file), wall=site.wall)):
        with pytest.raises(PolicyError, match="version 1, and version 2 was in force"):
            await running.reload(ME)
        assert len(running.store.versions) == 3, "what was forgotten is not listed"


async def test_a_restart_is_no_way_round_the_second_signature(site: Site) -> None:
    site.file.write_text(policy("internal"))

    rollout = site.start(FOUR_EYES)

    assert clearance(rollout) == "public"
    assert rollout.stale is not None
    assert "four_eyes" in rollout.stale.fault.message


def test_the_first_policy_of_all_is_looser_than_none(tmp_path: Path) -> None:
    new = Site(tmp_path)
    new.file.write_text(policy())
    with pytest.raises(PolicyError, match="signatures of 2 people"):
        new.begin(FOUR_EYES)
    new.file.write_bytes(bundle(policy(), ADA, BEN))
    assert new.begin(FOUR_EYES).in_force.stable.number == 1


async def test_a_bundle_with_both_signatures_comes_into_force_at_once(site: Site) -> None:
    rollout = site.start(FOUR_EYES)
    site.file.write_bytes(bundle(policy("internal"), ADA, BEN))

    assert (await rollout.reload(ME)).became == "in_force"
    assert clearance(rollout) == "internal"


async def test_an_old_looser_bundle_does_not_come_back_by_itself(site: Site) -> None:
    rollout = site.start(Demands(TARGETS, APPROVERS))
    old, new = bundle(policy("internal"), ADA, BEN), bundle(policy("public"), ADA, version=2)
    for content in (old, new):
        site.file.write_bytes(content)
        await rollout.reload(ME)
    site.file.write_bytes(old)

    with pytest.raises(PolicyError, match="version 1, and version 2 was in force"):
        await rollout.reload(ME)

    assert clearance(rollout) == "public"
    site.file.write_bytes(bundle(policy("internal"), ADA, BEN, version=2))
    with pytest.raises(PolicyError, match="version 2 was in force"):
        await rollout.reload(ME)
    assert clearance(site.start(Demands(TARGETS, APPROVERS))) == "public", "nor at a restart"


async def test_a_bundle_is_whole_whatever_its_policy_leaves_out(site: Site) -> None:
    rollout = site.start()
    guarded = policy("internal", more="constraints: [{id: none, deny: [cloud]}]\n")
    for number, text in enumerate((guarded, policy("internal")), start=1):
        site.file.write_bytes(bundle(text, version=number))
        assert (await rollout.reload(ME)).became == "in_force"

    site.file.write_text(guarded)
    await rollout.reload(ME)
    site.file.write_text(policy("internal"))
    with pytest.raises(PolicyError, match="end cut off"):
        await rollout.reload(ME)


async def test_a_bundle_that_is_signed_once_more_is_no_older_one(site: Site) -> None:
    rollout = site.start(Demands(TARGETS, APPROVERS))
    for keys in ((), (ADA,), (ADA, BEN)):
        site.file.write_bytes(bundle(policy("public"), *keys))
        await rollout.reload(ME)

    last = site.store.last_in_force
    assert last is not None
    assert last.people == ("ada", "ben")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (policy().encode(), "no signed bundle"),
        (bundle(policy()), "no valid signature"),
        (bundle(policy(), EVE), "no valid signature"),
        (bundle(policy(), ADA).replace(b"internal", b"restricted"), "not the one that its manifest names"),
        (bundle(policy(), ADA)[:-30], "damaged or was cut off"),
        (bundle(policy(), ADA, expires=CREATED), "expired"),
        (bundle(policy(), ADA, name="other"), "manifest says `other`"),
    ],
)
async def test_where_signatures_are_asked_for_nothing_else_is_taken(tmp_path: Path, content: bytes, why: str) -> None:
    site = Site(tmp_path, now=CREATED.timestamp())
    site.file.write_bytes(bundle(policy("public"), ADA))
    rollout = site.start(SIGNED)
    site.file.write_bytes(content)

    with pytest.raises(PolicyError, match=why):
        await rollout.reload(ME)
    assert clearance(rollout) == "public"


def test_a_bundle_is_read_as_it_was_made() -> None:
    found = read_bundle(Document.of("b", bundle(policy(), ADA, BEN, version=3)))

    assert found is not None
    assert (found.manifest.version, found.policy) == (3, policy())
    assert APPROVERS.who_signed(found.envelope) == {"ada", "ben"}
    assert read_bundle(Document.of("p", policy().encode())) is None
