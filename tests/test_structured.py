import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import assert_raises, close, error_table, make, seeded

from tutorial_lib.structured import StructuredSelfAttention, redundancy_penalty

B, S, WIDTH, HIDDEN, HOPS = 2, 5, 6, 4, 3


def build():
    return seeded(StructuredSelfAttention, WIDTH, HIDDEN, HOPS).double()


def test_it_is_the_formula_of_the_paper_number_by_number():
    layer, states = build(), make(B, S, WIDTH)
    matrix, weights = layer(states)
    w_s1, w_s2 = layer.first.weight, layer.second.weight
    for hop in range(HOPS):
        energies = []
        for word in range(S):
            inside = [math.tanh((w_s1[a] @ states[1, word]).item()) for a in range(HIDDEN)]
            energies.append(sum(w_s2[hop, a].item() * inside[a] for a in range(HIDDEN)))
        total = sum(math.exp(e) for e in energies)
        for word in range(S):
            assert weights[1, hop, word].item() == pytest.approx(math.exp(energies[word]) / total, abs=1e-13)
        expected = sum(weights[1, hop, word] * states[1, word] for word in range(S))
        close(matrix[1, hop], expected)


def test_there_is_no_bias():
    assert [n for n, _ in build().named_parameters()] == ["first.weight", "second.weight"]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=3), st.integers(0, 3))
def test_padding_changes_nothing(lengths, extra):
    layer, size = build(), 5 + extra
    states = make(len(lengths), size, WIDTH)
    mask = torch.arange(size) < torch.tensor(lengths)[:, None]
    matrix, weights = layer(states, mask)
    close(weights.sum(-1), mask.any(-1).double()[:, None].expand(-1, HOPS))
    for row, length in enumerate(lengths):
        if length:
            close(matrix[row], layer(states[row : row + 1, :length])[0][0])
        else:
            assert (matrix[row] == 0).all()


def test_gradients_are_right_also_without_a_single_word():
    layer, states = build(), make(2, 3, WIDTH).requires_grad_()
    mask = torch.tensor([[True, True, False], [False, False, False]])
    assert torch.autograd.gradcheck(lambda s: layer(s, mask), (states,))


def test_the_penalty_is_the_squared_frobenius_norm():
    weights = torch.softmax(make(B, HOPS, S), -1)
    expected = 0.0
    for a in weights:
        for i in range(HOPS):
            for j in range(HOPS):
                expected += ((a[i] * a[j]).sum().item() - (i == j)) ** 2
    assert redundancy_penalty(weights).item() == pytest.approx(expected / B, abs=1e-12)


def test_the_penalty_is_zero_for_separate_words_and_largest_for_one_word():
    assert redundancy_penalty(torch.eye(3)[None]).item() == 0
    same = torch.zeros(1, 3, 3)
    same[..., 0] = 1
    assert redundancy_penalty(same).item() == 6  # three hops: 3 * 3 - 3 pairs with overlap 1


LAYER, STATES = build(), make(B, S, WIDTH)


@error_table(
    [
        ("hops 0", lambda: StructuredSelfAttention(4, 4, 0), ("hops", "0")),
        ("swapped axes", lambda: LAYER(STATES.mT), ("(B, T, 6)", "(2, 6, 5)")),
        ("one sentence", lambda: LAYER(STATES[0]), ("(B, T, 6)", "(5, 6)")),
        ("mixed dtypes", lambda: LAYER(STATES.float()), ("float64", "float32")),
        ("mask: shape", lambda: LAYER(STATES, torch.ones(B, 1, 1, S).bool()), ("(2, 5)", "(2, 1, 1, 5)")),
        ("mask: float", lambda: LAYER(STATES, torch.ones(B, S)), ("boolean", "float32")),
        ("mask: list", lambda: LAYER(STATES, [1]), ("mask must be a torch.Tensor", "list")),
        ("penalty: one matrix", lambda: redundancy_penalty(torch.eye(3)), ("(B, hops, S)", "(3, 3)")),
        ("penalty: ids", lambda: redundancy_penalty(torch.ones(1, 2, 3).long()), ("floating", "int64")),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
