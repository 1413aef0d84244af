import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import assert_raises, close, error_table, make
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from tutorial_lib.sampling import keep_top_k, keep_top_p, next_token_probabilities

SCORES = make(3, 30, seed=1)


def by_hand(scores, temperature=1.0, top_k=None, top_p=None):
    """One row, in lists: the definition, one cut after the other."""
    weights = [math.exp(score / temperature) for score in scores]

    def keep(weights, smallest):
        kept = [w if w >= smallest else 0.0 for w in weights]
        return [w / sum(kept) for w in kept]

    probabilities = keep(weights, 0.0)
    if top_k is not None and top_k < len(scores):
        probabilities = keep(probabilities, sorted(probabilities)[-top_k])
    if top_p is not None:
        together = 0.0
        for probability in sorted(probabilities, reverse=True):
            together += probability
            if together >= top_p:
                break
        probabilities = keep(probabilities, probability)
    return torch.tensor(probabilities, dtype=torch.float64)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("top_k", [None, 1, 4, 30, 100])
@pytest.mark.parametrize("top_p", [None, 0.001, 0.4, 0.9])
def test_it_is_the_definition(temperature, top_k, top_p):
    settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    ours = next_token_probabilities(SCORES, **settings)
    for row in range(3):
        close(ours[row], by_hand(SCORES[row].tolist(), **settings))


@pytest.mark.parametrize("top_k, top_p", [(4, None), (None, 0.7), (7, 0.7), (2, 0.2)])
def test_it_is_what_hugging_face_cuts_off(top_k, top_p):
    scores = make(5, 200, dtype=torch.float32, seed=2)
    theirs = TemperatureLogitsWarper(0.7)(None, scores)
    theirs = theirs if top_k is None else TopKLogitsWarper(top_k)(None, theirs)
    theirs = theirs if top_p is None else TopPLogitsWarper(top_p)(None, theirs)
    ours = next_token_probabilities(scores, temperature=0.7, top_k=top_k, top_p=top_p)
    assert torch.equal(ours == 0, theirs.isinf())
    close(ours, torch.softmax(theirs, -1), 1e-6)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(1, 9), st.floats(0.05, 1.0))
def test_equal_tokens_have_equal_chances_whatever_the_cut(levels, k, p):
    scores = torch.tensor(levels, dtype=torch.float64)
    probabilities = next_token_probabilities(scores, top_k=k, top_p=p)
    close(probabilities.sum(), torch.tensor(1.0).double(), 1e-12)
    kept = {level for level, one in zip(levels, probabilities.tolist(), strict=True) if one > 0}
    for level in set(levels):
        same = probabilities[scores == level]
        assert (same == same[0]).all()  # all stay or all go
    assert kept == {level for level in set(levels) if level >= min(kept)}  # nothing likelier is cut off


def test_ties_at_the_cut_stay():
    scores = torch.tensor([2.0, 1.0, 1.0, 0.0])
    assert (keep_top_k(scores, 2) == torch.tensor([2.0, 1.0, 1.0, -math.inf])).all()
    close(keep_top_p(torch.tensor([0.5, 0.2, 0.2, 0.1]), 0.6), torch.tensor([5, 2, 2, 0]) / 9, 1e-6)


def test_a_nucleus_that_is_reached_exactly_ends_there():
    assert (keep_top_p(torch.tensor([0.25, 0.5, 0.25]), 0.5) == torch.tensor([0.0, 1.0, 0.0])).all()


def test_top_p_of_1_keeps_even_what_rounding_would_lose():
    scores = torch.cat([torch.zeros(1), torch.full((1000,), -30.0)])  # together they are 1.0 after the first
    assert (next_token_probabilities(scores, top_p=1.0) > 0).all()


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-45, 5e-324])
def test_towards_temperature_0_it_is_greedy(temperature):
    probabilities = next_token_probabilities(100 * SCORES.float(), temperature=temperature)
    assert (probabilities.max(-1).values == 1).all()
    assert torch.equal(probabilities.argmax(-1), SCORES.argmax(-1))
    tied = next_token_probabilities(torch.tensor([3.0, 3.0, 2.0]), temperature=temperature)
    assert tied.tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    scores = (SCORES * 1000).to(dtype)  # differences overflow fp16 when divided by the temperature
    ours = next_token_probabilities(scores, temperature=0.01, top_k=5, top_p=0.9)
    assert ours.dtype == torch.float32 and ours.isfinite().all()
    close(ours, next_token_probabilities(scores.float(), temperature=0.01, top_k=5, top_p=0.9), 0)


def test_forbidden_tokens_stay_forbidden():
    scores = SCORES.clone()
    scores[:, 3:] = -math.inf
    probabilities = next_token_probabilities(scores, top_k=10, top_p=0.99, temperature=3.0)
    assert (probabilities[:, 3:] == 0).all()
    close(probabilities.sum(-1), torch.ones(3).double())


@pytest.mark.parametrize("temperature", [1e39, 1e300])
def test_very_hot_all_allowed_tokens_are_equally_likely(temperature):
    scores = torch.tensor([0.0, 1.0, -math.inf])
    close(next_token_probabilities(scores, temperature=temperature), torch.tensor([0.5, 0.5, 0.0]))


def test_the_scores_stay_as_they_are():
    scores = SCORES.clone()
    next_token_probabilities(scores, temperature=0.5, top_k=3, top_p=0.5)
    assert torch.equal(scores, SCORES)


@error_table(
    [
        ("temperature 0", lambda: next_token_probabilities(SCORES, temperature=0.0), ("temperature", "0.0")),
        ("temperature -1", lambda: next_token_probabilities(SCORES, temperature=-1), ("above 0", "-1")),
        ("hot", lambda: next_token_probabilities(SCORES, temperature=math.inf), ("finite", "inf")),
        ("nan", lambda: next_token_probabilities(SCORES, temperature=math.nan), ("finite", "nan")),
        ("a word", lambda: next_token_probabilities(SCORES, temperature="1"), ("temperature", "'1'")),
        ("nothing", lambda: next_token_probabilities(SCORES, temperature=None), ("temperature", "None")),
        ("top_p: a word", lambda: next_token_probabilities(SCORES, top_p="1"), ("top_p", "'1'")),
        ("k > V", lambda: keep_top_k(torch.zeros(3), 5), ("k must be at most V = 3", "5")),
        ("k = 0", lambda: keep_top_k(torch.zeros(3), 0), ("k must be", "at least 1", "0")),
        ("p = 0", lambda: keep_top_p(torch.ones(1), 0.0), ("p must lie above 0", "0.0")),
        ("top_k 0", lambda: next_token_probabilities(SCORES, top_k=0), ("top_k", "at least 1", "0")),
        ("top_k 2.5", lambda: next_token_probabilities(SCORES, top_k=2.5), ("top_k", "integer", "2.5")),
        ("top_p 0", lambda: next_token_probabilities(SCORES, top_p=0.0), ("top_p", "above 0", "0.0")),
        ("top_p 1.1", lambda: next_token_probabilities(SCORES, top_p=1.1), ("at most", "1.1")),
        ("no tensor", lambda: next_token_probabilities([1.0]), ("scores", "list")),
        ("integers", lambda: next_token_probabilities(torch.arange(3)), ("floats (..., V)", "int64")),
        ("no token", lambda: next_token_probabilities(torch.zeros(2, 0)), ("(..., V)", "(2, 0)")),
        ("nan score", lambda: next_token_probabilities(SCORES * math.nan), ("finite", "nan")),
        ("nothing allowed", lambda: next_token_probabilities(torch.full((2,), -math.inf)), ("-inf",)),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
