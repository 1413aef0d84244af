import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import assert_raises, close, error_table, make, seeded

from tutorial_lib.scores import (
    AdditiveScore,
    DotScore,
    GeneralScore,
    ScoreAttention,
    additive_score,
    attend,
    dot_score,
    general_score,
)

B, T, S, Dq, Dk, A = 2, 3, 5, 4, 6, 7


def test_the_dot_score_is_the_sum_of_products():
    query, key = make(B, T, Dq, seed=1), make(B, S, Dq, seed=2)
    scores = dot_score(query, key)
    for b, t, s in [(0, 0, 0), (1, 2, 4), (0, 1, 3)]:
        expected = sum((query[b, t, d] * key[b, s, d]).item() for d in range(Dq))
        assert scores[b, t, s].item() == pytest.approx(expected, abs=1e-13)


def test_the_general_score_is_the_double_sum_over_the_matrix():
    query, key, weight = make(B, T, Dq, seed=1), make(B, S, Dk, seed=2), make(Dq, Dk, seed=3)
    expected = sum(
        (query[1, 2, i] * weight[i, j] * key[1, 3, j]).item() for i in range(Dq) for j in range(Dk)
    )
    assert general_score(query, key, weight)[1, 2, 3].item() == pytest.approx(expected, abs=1e-13)


def test_the_additive_score_is_the_closed_form_of_2014():
    query, key = make(B, T, Dq, seed=1), make(B, S, Dk, seed=2)
    w_query, w_key, v = make(Dq, A, seed=3), make(Dk, A, seed=4), make(A, seed=5)
    expected = 0.0
    for a in range(A):
        inside = sum((query[1, 2, i] * w_query[i, a]).item() for i in range(Dq))
        inside += sum((key[1, 3, j] * w_key[j, a]).item() for j in range(Dk))
        expected += v[a].item() * math.tanh(inside)
    scores = additive_score(query, key, w_query, w_key, v)
    assert scores.shape == (B, T, S)
    assert scores[1, 2, 3].item() == pytest.approx(expected, abs=1e-13)


def test_the_general_score_with_the_identity_is_the_dot_score():
    query, key = make(B, T, Dq, seed=1), make(B, S, Dq, seed=2)
    close(general_score(query, key, torch.eye(Dq, dtype=query.dtype)), dot_score(query, key))


@pytest.mark.parametrize("score", ["dot", "general", "additive"])
def test_gradients_reach_every_input_and_are_right(score):
    query, key = make(1, 2, 3, seed=1).requires_grad_(), make(1, 4, 3, seed=2).requires_grad_()
    weights = {"dot": [], "general": [make(3, 3)], "additive": [make(3, 2), make(3, 2, seed=1), make(2)]}
    function = {"dot": dot_score, "general": general_score, "additive": additive_score}[score]
    parameters = [w.requires_grad_() for w in weights[score]]
    assert torch.autograd.gradcheck(function, (query, key, *parameters))


@pytest.mark.parametrize("score", [GeneralScore(Dq, Dk), AdditiveScore(Dq, Dk, A)])
def test_keys_can_be_projected_once_and_compared_later(score):
    score, query, key = score.double(), make(B, T, Dq, seed=1), make(B, S, Dk, seed=2)
    close(score.compare(query, score.project_keys(key)), score(query, key))


@given(
    st.integers(1, 3), st.integers(1, 5), st.integers(1, 6), st.sampled_from(["dot", "general", "additive"])
)
def test_attention_with_any_score_gives_distributions_over_the_allowed_keys(batch, queries, keys, kind):
    score = {
        "dot": DotScore,
        "general": lambda: GeneralScore(3, 3),
        "additive": lambda: AdditiveScore(3, 3, 2),
    }
    attention = ScoreAttention(seeded(score[kind])).double()
    mask = make(batch, queries, keys, seed=9) > 0
    output, weights = attention(make(batch, queries, 3), make(batch, keys, 3, seed=1), mask=mask)
    close(weights.sum(-1), mask.any(-1).double())
    assert (weights[~mask] == 0).all() and output.isfinite().all()
    assert (output[~mask.any(-1)] == 0).all()


def test_without_values_the_keys_are_mixed_and_with_values_the_values():
    scores, key, value = make(B, T, S), make(B, S, 4, seed=1), make(B, S, 2, seed=2)
    output, weights = attend(scores, value)
    close(output, torch.softmax(scores, -1) @ value)
    query = make(B, T, 4, seed=3)
    attention = ScoreAttention(DotScore())
    close(attention(query, key)[0], attend(dot_score(query, key), key)[0])
    close(attention(query, key, value)[0], attend(dot_score(query, key), value)[0])
    assert weights.shape == (B, T, S)


def test_non_contiguous_and_empty_inputs_give_the_same_numbers():
    query, key = make(B, T, Dq, seed=1), make(B, S, Dq, seed=2)
    strided = torch.cat([query, query], dim=-1)[..., ::2], torch.cat([key, key], dim=-1)[..., ::2]
    close(dot_score(*strided), dot_score(*(x.contiguous() for x in strided)))
    assert dot_score(query[:, :0], key).shape == (B, 0, S)
    output, _ = attend(make(B, T, 0), make(B, 0, 4))
    assert (output == 0).all()


QUERY, KEY = make(B, T, Dq), make(B, S, Dk)


@error_table(
    [
        ("dot: other width", lambda: dot_score(QUERY, KEY), ("same width", "4", "6")),
        ("dot: no tensor", lambda: dot_score([1.0], KEY), ("query must be a torch.Tensor", "list")),
        ("dot: wrong rank", lambda: dot_score(QUERY[0, 0], KEY), ("(..., length, width)", "(4,)")),
        ("dot: integers", lambda: dot_score(QUERY.long(), KEY), ("floating point", "int64")),
        ("dot: other batch", lambda: dot_score(QUERY[:1], QUERY), ("leading dimensions", "(1, 3, 4)")),
        ("dot: mixed dtypes", lambda: dot_score(QUERY, QUERY.float()), ("same dtype", "float64", "float32")),
        ("dot: other device", lambda: dot_score(QUERY, QUERY.to("meta")), ("same device", "cpu", "meta")),
        ("general: transposed", lambda: general_score(QUERY, KEY, make(Dk, Dq)), ("(4, 6)", "(6, 4)")),
        (
            "additive: v too short",
            lambda: additive_score(QUERY, KEY, make(Dq, A), make(Dk, A), make(A - 1)),
            ("weight_score", "(7,)", "(6,)"),
        ),
        (
            "additive: swapped weights",
            lambda: additive_score(QUERY, KEY, make(Dk, A), make(Dq, A), make(A)),
            ("weight_query", "(4, 7)", "(6, 7)"),
        ),
        (
            "additive: key weight",
            lambda: additive_score(QUERY, KEY, make(Dq, A), make(Dk, A - 1), make(A)),
            ("weight_key", "(6, 7)", "(6, 6)"),
        ),
        ("attend: too few values", lambda: attend(make(B, T, S), make(B, T, 2)), ("5 scores", "3 values")),
        ("attend: other batch", lambda: attend(make(B, T, S), make(1, S, 2)), ("leading", "(1, 5, 2)")),
        ("attend: no tensor", lambda: attend(None, KEY), ("scores must be", "NoneType")),
        ("attend: float mask", lambda: attend(make(B, T, S), KEY, make(T, S)), ("boolean", "float64")),
        ("module: width 0", lambda: GeneralScore(0, 3), ("query_width", "0")),
        ("module: width 2.5", lambda: AdditiveScore(3, 3, 2.5), ("hidden", "2.5")),
        (
            "module: mixed dtypes",
            lambda: ScoreAttention(GeneralScore(Dq, Dk))(QUERY, KEY),
            ("float32", "float64"),
        ),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
