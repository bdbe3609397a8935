import random
from array import array

import pytest

from edge_runtime.generation.drafting import Drafter, look_up
from inference_protocol.sampling import Sampling


@pytest.mark.parametrize(
    ("tokens", "draft"),
    [
        ([1, 2, 3, 4, 5, 1, 2], (3, 4, 5, 1)),
        ([1, 2, 7, 9, 2, 7, 8, 1, 2, 7], (9, 2, 7, 8)),  # the longer pattern, though the shorter was later
        ([1, 2, 3], ()),
        ([5, 5, 5], (5,)),
        ([1], ()),
        ([], ()),
    ],
)
def test_a_draft_is_what_followed_the_last_tokens_before(tokens, draft):
    assert look_up(array("q", tokens), 4) == draft


def test_a_pattern_is_found_at_whole_tokens_only():
    assert look_up(array("q", [1 << 32, 256 << 32, 0, 1, 256]), 4) == ()


def test_drafts_that_are_never_accepted_end_and_are_looked_at_again_later():
    drafter = Drafter()
    tokens = array("q", [1, 2, 3, 1, 2])
    tried = []
    for step in range(200):
        if draft := drafter.draft(tokens, 4, decode_s=1.0):
            tried.append(step)
            drafter.checked(len(draft), 0, 2.0)
    assert 3 < len(tried) < 40
    assert tried[-1] - tried[-2] == 32


def test_drafts_that_pay_go_on():
    drafter = Drafter()
    for _ in range(100):
        draft = drafter.draft(array("q", [1, 2, 3, 1, 2]), 4, decode_s=1.0)
        assert draft
        drafter.checked(len(draft), len(draft), 2.0)


@pytest.mark.parametrize("sampling", [Sampling(temperature=0.0), Sampling(temperature=0.2, seed=4)])
def test_drafts_change_nothing_of_what_is_said(bench, job, sampling):
    chance = random.Random(1)
    plain, drafting = bench("plain", pruned=False), bench("drafting", pruned=False, drafter=Drafter())
    for _ in range(40):
        phrase = [chance.randrange(60) for _ in range(6)]
        asked = job([*phrase, *phrase, *phrase[:3]], chance.randint(1, 60), sampling=sampling)
        one, two = plain.add(asked), drafting.add(asked)
        plain.finish()
        drafting.finish()
        assert plain.said[one] == drafting.said[two]
        assert plain.ends[one] == drafting.ends[two]
    assert any(kind == "verify" for kind, *_ in drafting.runs)
    checks = [step for step in drafting.scheduler.steps if step.kind == "check"]
    assert any(0 < step.accepted < step.tokens for step in checks)


def test_nothing_is_drafted_beside_others(bench, job):
    house = bench(pruned=False, drafter=Drafter())
    house.add(job([1, 2, 3] * 5, 30))
    house.add(job([1, 2, 3] * 5, 30))
    while len(house.scheduler.steps) < 30:
        house.step()
    assert not any(kind == "verify" for kind, *_ in house.runs)


def test_a_graph_that_cannot_check_is_not_asked_to(bench, job):
    house = bench(pruned=True, drafter=Drafter())
    house.add(job([1, 2, 3] * 5, 30))
    house.finish()
    assert not any(kind == "verify" for kind, *_ in house.runs)
