import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_protocol.sampling import Sampling
from runtime_server.choosing.sampler import NonFiniteLogits, Sampler

LOGITS = np.log(np.array([0.05, 0.4, 0.1, 0.25, 0.2], np.float32))


def frequencies(sampling: Sampling, draws: int = 6_000) -> np.ndarray:
    sampler = Sampler(sampling)
    return np.bincount([sampler.next(LOGITS) for _ in range(draws)], minlength=5) / draws


def test_greedy_takes_the_likeliest_and_the_first_of_equals():
    sampler = Sampler(Sampling(temperature=0.0))
    assert sampler.next(LOGITS) == 1
    assert sampler.next(np.array([0.0, 3.0, 3.0], np.float32)) == 1


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(seed=1), [0.05, 0.4, 0.1, 0.25, 0.2]),
        (Sampling(seed=1, temperature=0.5), [0.009, 0.587, 0.037, 0.229, 0.147]),
        (Sampling(seed=1, top_k=2), [0, 0.615, 0, 0.385, 0]),
        (Sampling(seed=1, top_k=1), [0, 1, 0, 0, 0]),
        (Sampling(seed=1, top_k=99), [0.05, 0.4, 0.1, 0.25, 0.2]),
        (Sampling(seed=1, top_p=0.6), [0, 0.615, 0, 0.385, 0]),
        (Sampling(seed=1, top_p=0.7), [0, 0.471, 0, 0.294, 0.235]),
        (Sampling(seed=1, top_p=1e-9), [0, 1, 0, 0, 0]),
        (Sampling(seed=1, top_k=3, top_p=0.5), [0, 0.615, 0, 0.385, 0]),
    ],
)
def test_tokens_come_as_often_as_the_parameters_say(sampling, expected):
    np.testing.assert_allclose(frequencies(sampling), expected, atol=0.02)


@settings(deadline=None)
@given(
    st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=200, unique=True),
    st.floats(0.01, 0.999),
    st.floats(0.1, 2.0),
)
def test_the_nucleus_is_the_smallest_set_that_reaches_top_p(values, top_p, temperature):
    logits = np.array(values, np.float32)
    weights = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
    shares = weights / weights.sum()
    order = np.argsort(-shares)
    reached = np.cumsum(shares[order])
    nucleus = set(order[: int((reached < top_p - 1e-6).sum()) + 1].tolist())
    generous = nucleus | set(order[: int((reached < top_p + 1e-6).sum()) + 1].tolist())
    sampler = Sampler(Sampling(temperature=temperature, top_p=top_p, seed=3))
    equals = set(np.flatnonzero(shares >= shares[list(generous)].min() * (1 - 1e-5)).tolist())
    assert {sampler.next(logits) for _ in range(20)} <= equals


def test_a_seed_repeats_and_another_differs():
    def draw(seed: int | None) -> list[int]:
        sampler = Sampler(Sampling(seed=seed))
        return [sampler.next(LOGITS) for _ in range(50)]

    assert draw(11) == draw(11)
    assert draw(-(1 << 63)) == draw(-(1 << 63))
    assert draw(11) != draw(12)
    assert draw(None) != draw(None)


def test_rounding_does_not_move_a_seeded_choice():
    sampler, shaken = Sampler(Sampling(seed=4, top_p=0.9)), Sampler(Sampling(seed=4, top_p=0.9))
    noise = np.random.default_rng(0)
    for _ in range(500):
        moved = (LOGITS * (1 + noise.uniform(-1e-6, 1e-6, 5))).astype(np.float32)
        assert sampler.next(LOGITS) == shaken.next(moved)


@pytest.mark.parametrize("top", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nan_and_infinity_are_never_chosen_from(top, temperature):
    logits = LOGITS.copy()
    logits[2] = top
    with pytest.raises(NonFiniteLogits):
        Sampler(Sampling(temperature=temperature)).next(logits)
    with pytest.raises(NonFiniteLogits):
        Sampler(Sampling(temperature=temperature)).next(np.full(5, -np.inf, np.float32))


def test_a_token_ruled_out_by_minus_infinity_is_never_drawn():
    logits = LOGITS.copy()
    logits[1] = -np.inf
    sampler = Sampler(Sampling(temperature=2.0, seed=0))
    assert 1 not in {sampler.next(logits) for _ in range(1000)}


def test_the_logits_are_left_as_they_are():
    logits = LOGITS.copy()
    Sampler(Sampling(seed=0, top_k=3, top_p=0.5)).next(logits)
    np.testing.assert_array_equal(logits, LOGITS)
