import random

import pytest

from edge_runtime.generation.errors import GraphRunFailed
from edge_runtime.generation.occupancy import Counts
from inference_protocol.sampling import Sampling
from runtime_server.engine import FinishReason

POISON = 63


def test_requests_that_come_and_go_at_any_time_say_what_each_says_alone(bench, job):
    house = bench(slots=4)
    chance = random.Random(5)
    waiting = []
    for number in range(200):
        prompt = [chance.randrange(POISON) for _ in range(chance.randint(1, 40))]
        sampling = Sampling(temperature=chance.choice([0.0, 0.8]), top_p=0.9, seed=number)
        waiting.append(job(prompt, chance.randint(1, 20), sampling=sampling))
    aborted = set()
    while waiting or not house.scheduler.is_idle:
        for _ in range(min(len(waiting), chance.choice([0, 0, 1, 3]))):
            house.add(waiting.pop())
        house.step()
        alive = [request for request in house.said if request not in house.ends]
        if alive and len(aborted) < 40 and chance.random() < 0.2:
            victim = chance.choice(alive)
            aborted.add(victim)
            house.hear(house.scheduler.cancel(victim))
    assert len(house.ends) == 200
    assert len(aborted) == 40
    assert any(kind == "exchange" for kind, *_ in house.runs)
    for request, said in house.said.items():
        expected = house.alone(request.job)
        if request in aborted:
            assert house.ends[request] is FinishReason.CANCELLED
            assert said == expected[: len(said)]
        else:
            assert said == expected
    assert house.occupancy.counts == Counts()


def test_a_long_prompt_holds_up_running_requests_by_one_chunk_a_step(bench, job):
    house = bench(chunk=8)
    house.add(job([1], 30))
    house.step()
    house.add(job(range(20), 5))
    house.runs.clear()
    for _ in range(3):
        house.step()
    assert house.runs == [
        *(("prefill", 1, 8), ("decode", 1)),
        *(("prefill", 1, 8), ("decode", 1)),
        *(("prefill", 1, 4), ("decode", 2)),
    ]


def test_prompts_are_read_first_come_first_served(bench, job):
    house = bench(slots=1)
    order = [house.add(job([number], 3)) for number in range(5)]
    house.finish()
    assert list(house.ends) == order


def test_only_as_many_run_as_there_are_slots(bench, job):
    house = bench(slots=2)
    for number in range(5):
        house.add(job([number, 1], 10))
    house.step()
    house.step()
    house.step()
    assert house.occupancy.counts == Counts(waiting=3, running=2, prompt_tokens_unread=6)
    house.finish()
    assert max(rows for kind, rows, *_ in house.runs if kind == "decode") == 2


def test_cancelling_in_the_queue_frees_the_place_at_once(bench, job):
    house = bench(slots=1)
    first, queued, last = (house.add(job([n, n], 2)) for n in (1, 2, 3))
    house.hear(house.scheduler.cancel(queued))
    assert house.ends == {queued: FinishReason.CANCELLED}
    assert house.occupancy.counts == Counts(waiting=2, prompt_tokens_unread=4)
    house.finish()
    assert list(house.ends) == [queued, first, last]
    assert house.said[queued] == []


def test_cancelling_in_the_middle_of_a_prompt_lets_the_next_one_be_read_in_the_next_step(bench, job):
    house = bench(slots=1, chunk=8)
    reading, following = house.add(job(range(40))), house.add(job([7], 3))
    house.step()
    house.hear(house.scheduler.cancel(reading))
    assert house.occupancy.counts == Counts(waiting=1, prompt_tokens_unread=1)
    house.runs.clear()
    house.step()
    assert house.runs == [("prefill", 0, 1), ("decode", 1)]
    assert house.said[following] == house.alone(following.job)[:2]


def test_cancelling_while_generating_frees_the_slot_for_the_next_step(bench, job):
    house = bench(slots=2)
    leaving, staying = house.add(job([1, 2], 50)), house.add(job([3, 4], 50))
    house.step()
    house.step()
    arriving = house.add(job([5, 6], 50))
    house.step()
    assert house.said[arriving] == []
    house.hear(house.scheduler.cancel(leaving))
    assert house.occupancy.counts == Counts(waiting=1, running=1, prompt_tokens_unread=2)
    house.step()
    assert len(house.said[arriving]) == 2
    house.finish()
    assert house.said[staying] == house.alone(staying.job)
    assert house.said[arriving] == house.alone(arriving.job)


def test_cancelling_what_has_ended_does_nothing(bench, job):
    house = bench()
    request = house.add(job([1], 1))
    house.finish()
    assert house.scheduler.cancel(request) == []
    assert house.occupancy.counts == Counts()


def test_a_stop_token_ends_the_answer_and_is_not_part_of_it(bench, job):
    house = bench()
    expected = house.alone(job([1, 2, 3], 20))
    stop = expected[5]
    request = house.add(job([1, 2, 3], 20, stop_tokens=frozenset({stop})))
    house.finish()
    assert house.ends[request] is FinishReason.STOP
    assert house.said[request] == expected[: expected.index(stop)]


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_max_tokens_is_reached_and_not_passed(bench, job, limit):
    house = bench()
    request = house.add(job([1, 2, 3], limit))
    house.finish()
    assert house.ends[request] is FinishReason.LENGTH
    assert len(house.said[request]) == limit


def test_an_answer_ends_before_the_step_that_would_pass_its_deadline(bench, job):
    house = bench()
    request = house.add(job([1], 50, deadline=house.now + 0.0105))
    house.finish()
    assert house.ends[request] is FinishReason.LENGTH
    assert house.said[request] == house.alone(job([1], 50))[:10]


def test_a_deadline_that_passes_in_the_queue_or_in_the_prompt_ends_the_request_without_a_token(bench, job):
    house = bench(slots=1, chunk=8)
    reading = house.add(job(range(40), deadline=house.now + 1))
    queued = house.add(job([1], deadline=house.now + 1))
    patient = house.add(job([2], 2))
    house.step()
    house.now += 2
    house.finish()
    assert house.ends == {
        queued: FinishReason.LENGTH,
        reading: FinishReason.LENGTH,
        patient: FinishReason.LENGTH,
    }
    assert (house.said[reading], house.said[queued]) == ([], [])
    assert len(house.said[patient]) == 2
    assert house.occupancy.counts == Counts()


def test_values_that_are_not_finite_end_that_request_alone_and_never_become_a_token(bench, job):
    house = bench()
    healthy = house.add(job([1, 2, 3], 20))
    poisoned = house.add(job([1, POISON, 3], 20))
    house.finish()
    assert house.ends == {poisoned: FinishReason.ERROR, healthy: FinishReason.LENGTH}
    assert house.said[poisoned] == []
    assert house.said[healthy] == house.alone(healthy.job)


def test_values_that_stop_being_finite_end_the_answer_after_the_good_tokens(bench, job):
    house = bench(nan_from_length=6)
    request = house.add(job([1, 2, 3], 20))
    house.finish()
    assert house.ends[request] is FinishReason.ERROR
    assert len(house.said[request]) == 3


def test_a_prompt_that_cannot_be_run_fails_alone(bench, job):
    house = bench()
    healthy, broken = house.add(job([1, 2], 10)), house.add(job([64], 10))
    house.finish()
    assert house.ends == {broken: FinishReason.ERROR, healthy: FinishReason.LENGTH}
    assert house.said[healthy] == house.alone(healthy.job)


def test_a_step_that_fails_ends_its_requests_and_no_others(bench, job, monkeypatch):
    house = bench(slots=2)
    doomed = [house.add(job([n], 10)) for n in (1, 2)]
    later = house.add(job([3], 10))
    house.step()
    house.step()

    def fail(tokens, lengths):
        raise GraphRunFailed("no")

    with monkeypatch.context() as fault:
        fault.setattr(house, "decode", fail)
        house.hear(house.scheduler.decode())
    assert house.ends == dict.fromkeys(doomed, FinishReason.ERROR)
    house.finish()
    assert house.said[later] == house.alone(later.job)
    assert house.occupancy.counts == Counts()


def test_timings_tell_queue_prefill_and_decode_apart(bench, job):
    house = bench(slots=1, chunk=8)
    house.add(job([1], 1))
    request = house.add(job(range(12), 3))
    house.now += 0.5
    house.step()
    house.step()
    house.now += 0.25
    house.step()
    house.now += 0.125
    house.step()
    timings = request.moments.timings
    found = (timings.queue_ms, timings.prefill_ms, timings.decode_ms)
    assert found == pytest.approx((501.0, 252.0, 127.0))  # with 1, 2 and 2 runs of the graph


def test_steps_keep_the_known_speed_current(bench, job):
    house = bench(slots=1, chunk=4)

    def slow(tokens, lengths):
        house.now += 0.011
        return house.graph.decode(tokens, lengths)

    house.decode = slow
    house.add(job([1], 2))
    house.step()
    assert house.speed.ms_per_token[1] == pytest.approx(2.0)
