import itertools

import pytest

from edge_runtime.generation.warm_up import choose_chunk, warm_up


@pytest.mark.parametrize(
    ("tokens_per_s", "chunk"), [(5000.0, 128), (640.0, 128), (630.0, 64), (400.0, 64), (100.0, 16), (1.0, 16)]
)
def test_a_chunk_is_as_large_as_running_requests_can_bear(tokens_per_s, chunk):
    assert choose_chunk(tokens_per_s) == chunk


@pytest.mark.parametrize(("slots", "sizes"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6])])
def test_prefill_and_some_batch_sizes_are_measured(bench, slots, sizes):
    house = bench(slots=slots)
    speed = warm_up(house, window=256, clock=lambda: house.now)
    assert speed.prefill_tokens_per_s == pytest.approx(64 / 0.001)
    assert speed.ms_per_token == pytest.approx(dict.fromkeys(sizes, 1.0))


def test_one_disturbed_run_does_not_count(bench):
    house = bench(slots=1)
    readings = itertools.count()

    def clock() -> float:
        if next(readings) == 3:  # at the end of the second run of the prompt
            house.now += 0.5
        return house.now

    speed = warm_up(house, window=256, clock=clock)
    assert speed.prefill_tokens_per_s == pytest.approx(64 / 0.001)


def test_a_window_smaller_than_the_usual_sample_is_respected(bench):
    house = bench(slots=1)
    warm_up(house, window=20, clock=lambda: house.now)
    assert max(length for kind, _, length in (run for run in house.runs if run[0] == "prefill")) == 19
