import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import assert_raises, close, error_table, seeded

from tutorial_lib.positions import (
    LearnedPositions,
    SinusoidalPositions,
    positions_from_mask,
    sinusoidal_encoding,
)


@pytest.mark.parametrize("width", [1, 3, 7, 512])
def test_each_number_is_the_sine_or_cosine_of_the_paper(width):
    encoding = sinusoidal_encoding(torch.arange(20), width, dtype=torch.float64)
    assert encoding.shape == (20, width)
    for position in (0, 1, 19):
        for d in range(width):
            pair = d // 2
            angle = position / 10000 ** (2 * pair / width)
            expected = math.sin(angle) if d % 2 == 0 else math.cos(angle)
            assert encoding[position, d].item() == pytest.approx(expected, abs=1e-14)


@given(st.integers(1, 40), st.integers(0, 500))
def test_halves_hold_the_same_numbers_in_another_order(width, position):
    positions = torch.tensor([position])
    adjacent = sinusoidal_encoding(positions, width, dtype=torch.float64)[0]
    halves = sinusoidal_encoding(positions, width, layout="halves", dtype=torch.float64)[0]
    order = [*range(0, width, 2), *range(1, width, 2)]
    close(halves, adjacent[order], 0)


@given(st.integers(0, 400), st.integers(0, 400), st.integers(0, 300))
def test_the_dot_product_of_two_encodings_depends_on_their_distance_alone(p, q, shift):
    e = sinusoidal_encoding(torch.tensor([p, q, p + shift, q + shift]), 16, dtype=torch.float64)
    assert (e[0] @ e[1]).item() == pytest.approx((e[2] @ e[3]).item(), abs=1e-10)
    assert (e[0] @ e[0]).item() == pytest.approx(8, abs=1e-12)


def test_the_module_has_no_longest_length_and_no_parameters():
    module = SinusoidalPositions(6)
    assert not list(module.parameters())
    close(module(torch.tensor([100_000])), sinusoidal_encoding(torch.tensor([100_000]), 6), 0)
    assert module(torch.tensor([[1, 2]]), torch.bfloat16).dtype == torch.bfloat16


def test_far_positions_are_exact_also_in_float32():
    encoding = sinusoidal_encoding(torch.tensor([1_000_003]), 2)
    assert encoding[0, 0].item() == pytest.approx(math.sin(1_000_003), abs=1e-7)


def test_learned_positions_look_up_their_own_row():
    module = seeded(LearnedPositions, 5, 3)
    close(module(torch.tensor([[4, 0]]))[0], module.table.weight[[4, 0]], 0)
    assert module(torch.tensor([], dtype=torch.long)).shape == (0, 3)
    assert module(torch.tensor([1]), torch.float64).dtype == torch.float64


def test_positions_count_real_tokens_wherever_padding_stands():
    real = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 1], [0, 0, 0]], dtype=torch.bool)
    assert positions_from_mask(real).tolist() == [[0, 1, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0]]


@error_table(
    [
        ("float positions", lambda: sinusoidal_encoding(torch.zeros(2), 4), ("integers", "float32")),
        ("a length", lambda: sinusoidal_encoding(5, 4), ("torch.Tensor", "int")),
        ("width 0", lambda: sinusoidal_encoding(torch.arange(2), 0), ("width", "0")),
        ("base 0", lambda: sinusoidal_encoding(torch.arange(2), 4, base=0), ("base", "0")),
        ("layout", lambda: SinusoidalPositions(4, layout="half"), ("'adjacent', 'halves'", "'half'")),
        (
            "past the maximum length",
            lambda: LearnedPositions(5, 3)(torch.arange(6)),
            ("max_length=5", "positions 0 to 5"),
        ),
        ("negative position", lambda: LearnedPositions(5, 3)(torch.tensor([-1])), ("0 to 4", "-1")),
        ("learned: floats", lambda: LearnedPositions(5, 3)(torch.zeros(2)), ("integers", "float32")),
        ("learned: no length", lambda: LearnedPositions(None, 3), ("max_length", "None")),
        ("mask: float", lambda: positions_from_mask(torch.ones(2, 3)), ("bool", "float32")),
        ("mask: rank", lambda: positions_from_mask(torch.ones(3, dtype=torch.bool)), ("(B, T)", "(3,)")),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
