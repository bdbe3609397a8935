import random

import pytest

from edge_runtime.generation.occupancy import Counts
from edge_runtime.generation.slots import BLOCK, Reuse

POISON = 63


def read_tokens(house):
    return sum(run[2] for run in house.runs if run[0] == "prefill")


def test_a_prompt_that_begins_like_one_before_is_read_from_where_they_part(bench, job):
    house = bench(reuse=Reuse(1000))
    first = list(range(1, 51))
    house.add(job(first))
    house.finish()
    house.runs.clear()
    prompt = [*first[:40], 60, 61]
    request = house.add(job(prompt))
    house.finish()
    assert request.cached == 40 - 40 % BLOCK
    assert read_tokens(house) == len(prompt) - request.cached
    assert house.said[request] == house.alone(job(prompt))
    assert house.occupancy.counts == Counts()


def test_a_conversation_goes_on_from_its_own_answer(bench, job):
    house = bench(reuse=Reuse(1000))
    prompt = list(range(1, 31))
    first = house.add(job(prompt, 20))
    house.finish()
    longer = [*prompt, *house.said[first], 5, 6]
    second = house.add(job(longer))
    house.finish()
    assert second.cached == 48  # of 30 and 19 that stand in the cache
    assert house.said[second] == house.alone(job(longer))


def test_an_answer_is_read_anew_where_generating_leaves_something_else_than_reading(bench, job):
    house = bench(reuse=Reuse(1000, shares_answers=False))
    first = house.add(job(range(30), 20))
    house.finish()
    second = house.add(job([*range(30), *house.said[first], 5, 6]))
    house.finish()
    assert second.cached == 16


@pytest.mark.parametrize("tokens", [2, 9, 17, 18, 33])
def test_no_token_is_read_alone_wherever_a_prompt_is_cut(bench, job, tokens):
    house = bench(reuse=Reuse(1000))
    for _ in range(2):
        house.add(job(range(tokens), 1))
        house.finish()
    assert all(count > 1 for kind, *_, count in house.runs if kind == "prefill")


def test_the_same_prompt_twice_still_has_its_last_token_read(bench, job):
    house = bench(reuse=Reuse(1000))
    prompt = range(32)
    one = house.add(job(prompt))
    house.finish()
    two = house.add(job(prompt))
    house.finish()
    assert two.cached == 16
    assert house.said[one] == house.said[two]


def test_a_running_request_shares_what_it_has_read(bench, job):
    house = bench(reuse=Reuse(0))
    long = house.add(job(range(40), 60))
    while not house.said[long]:
        house.step()
    other = house.add(job([*range(40), 50]))
    house.finish()
    assert other.cached == 32
    assert house.said[other] == house.alone(job([*range(40), 50]))
    assert house.said[long] == house.alone(job(range(40), 60))


def test_nothing_is_shared_between_salts_whatever_comes_and_goes(bench, job):
    chance = random.Random(3)
    house, solo = bench(slots=4, reuse=Reuse(10_000)), bench("solo")
    read = {"a": [], "b": [], "": []}
    for _ in range(150):
        salt = chance.choice(list(read))
        prompt = [chance.choice([1, 2])] * 40 + [chance.randrange(POISON) for _ in range(20)]
        request = house.add(job(prompt, chance.randint(1, 6), cache_salt=salt))
        if chance.random() < 0.7:
            house.finish()
        shared = max((_common(prompt, other) for other in read[salt]), default=0)
        house.finish()
        assert request.cached <= shared
        assert house.said[request] == solo.alone(request.job)
        read[salt].append([*prompt, *house.said[request]])


def test_one_salts_prompt_is_read_anew_under_another(bench, job):
    house = bench(reuse=Reuse(1000))
    house.add(job(range(40), cache_salt="one"))
    house.finish()
    other = house.add(job(range(40), cache_salt="other"))
    house.finish()
    assert other.cached == 0


@pytest.mark.parametrize(("kept", "cached"), [(0, 0), (39, 0), (100, 32)])
def test_no_more_is_kept_than_may_be(bench, job, kept, cached):
    house = bench(reuse=Reuse(kept))
    house.add(job(range(40), 1))
    house.finish()
    assert (("release", 0) in house.runs) == (cached == 0)
    again = house.add(job(range(40), 1))
    house.finish()
    assert again.cached == cached


def test_memory_of_a_slot_that_is_given_back_reads_as_zeros(bench, job):
    house = bench(reuse=Reuse(0))
    house.add(job(range(40), 1))
    house.finish()
    assert not house.graph.keys_and_values(0, 0, 40).any()


def test_the_prompts_own_log_probabilities_are_worked_out_from_its_beginning(bench, job):
    house = bench(reuse=Reuse(1000), pruned=False)
    house.add(job(range(40), 1))
    house.finish()
    asking = house.add(job(range(40), 1, prompt_logprobs=True, logprobs=0))
    house.finish()
    assert asking.cached == 0


def _common(one, other):
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
