import itertools

import pytest

from edge_runtime.generation.warm_up import warm_up, worthwhile_slots


@pytest.mark.parametrize(
    ("ms_per_token", "chunk"), [(0.1, 128), (3.8, 128), (4.0, 64), (7.7, 64), (7.9, 16), (1000.0, 16)]
)
def test_a_chunk_is_as_large_as_running_requests_can_bear(bench, ms_per_token, chunk):
    house = bench(slots=1, ms_per_prompt_token=ms_per_token)
    measured = warm_up(house, window=1024, clock=lambda: house.now)
    assert measured.chunk == chunk
    assert measured.speed.prefill_tokens_per_s == pytest.approx(chunk / (0.001 + chunk * ms_per_token / 1000))


def test_a_slow_machine_is_not_made_to_read_large_chunks(bench):
    house = bench(slots=1, ms_per_prompt_token=1000.0)
    warm_up(house, window=1024, clock=lambda: house.now)
    assert max(tokens for kind, *_, tokens in house.runs if kind == "prefill") == 64


@pytest.mark.parametrize(("slots", "sizes"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6])])
def test_prefill_and_some_batch_sizes_are_measured(bench, slots, sizes):
    house = bench(slots=slots)
    speed = warm_up(house, window=512, clock=lambda: house.now).speed
    assert speed.prefill_tokens_per_s == pytest.approx(128 / 0.001)
    assert speed.ms_per_token == pytest.approx(dict.fromkeys(sizes, 1.0))


def test_one_disturbed_run_does_not_count(bench):
    house = bench(slots=1)
    readings = itertools.count()

    def clock() -> float:
        if next(readings) == 15:  # at the end of the second run of the largest chunk
            house.now += 0.6
        return house.now

    measured = warm_up(house, window=512, clock=clock)
    assert (measured.chunk, measured.speed.prefill_tokens_per_s) == (128, pytest.approx(128 / 0.001))
    assert next(readings) > 15


@pytest.mark.parametrize(
    ("ms_per_token", "slots"),
    [
        ({1: 8.0}, 1),
        ({1: 8.0, 2: 10.0, 4: 15.0, 8: 22.0}, 8),
        ({1: 8.0, 2: 10.0, 4: 19.0, 8: 20.0}, 2),
        ({1: 8.0, 2: 16.0, 4: 32.0}, 1),
    ],
)
def test_more_slots_are_used_as_long_as_they_give_more_tokens(ms_per_token, slots):
    assert worthwhile_slots(ms_per_token) == slots


def test_whether_several_tokens_at_once_say_what_each_says_alone_is_measured(bench, monkeypatch):
    house = bench(slots=1, pruned=False)
    assert warm_up(house, window=64, clock=lambda: house.now).checks_agree
    verify = house.verify
    monkeypatch.setattr(house, "verify", lambda tokens, length: verify(tokens, length) + 0.05)
    assert not warm_up(house, window=64, clock=lambda: house.now).checks_agree
    pruned = bench("pruned", slots=1)
    assert not warm_up(pruned, window=64, clock=lambda: pruned.now).checks_agree


def test_a_window_smaller_than_the_usual_sample_is_respected(bench):
    house = bench(slots=1)
    warm_up(house, window=20, clock=lambda: house.now)
    assert max(length for kind, _, length in (run for run in house.runs if run[0] == "prefill")) == 19
