import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from support import assert_raises, close, error_table, make
from torch import nn

from tutorial_lib.normalization import RMSNorm, layer_norm, make_norm, rms_norm


@given(st.integers(1, 9), st.integers(1, 4), st.floats(1e-6, 1e-1))
def test_both_equal_torch(width, rows, eps):
    x, gain, shift = make(rows, width), make(width, seed=1), make(width, seed=2)
    close(layer_norm(x, gain, shift, eps=eps), F.layer_norm(x, (width,), gain, shift, eps), 1e-11)
    close(rms_norm(x, gain, eps=eps), F.rms_norm(x, (width,), gain, eps), 1e-11)
    module = RMSNorm(width, eps).double()
    with torch.no_grad():
        module.weight.copy_(gain)
    close(module(x), rms_norm(x, gain, eps=eps), 1e-11)


def test_the_variance_is_divided_by_the_width():
    x = torch.tensor([1.0, 3.0], dtype=torch.float64)  # deviations -1 and 1: variance 1, not 2
    ones, zeros = torch.ones(2).double(), torch.zeros(2).double()
    close(layer_norm(x, ones, zeros, eps=0.0), torch.tensor([-1.0, 1.0], dtype=torch.float64))
    close(rms_norm(x, ones, eps=0.0), x / 5**0.5)


def test_eps_stands_inside_the_root():
    x = torch.tensor([1.0, 3.0], dtype=torch.float64)
    ones, zeros = torch.ones(2).double(), torch.zeros(2).double()
    close(layer_norm(x, ones, zeros, eps=3.0), torch.tensor([-0.5, 0.5], dtype=torch.float64))


def test_a_constant_vector_gives_the_shift_and_finite_gradients():
    x = torch.full((2, 4), 7.0, dtype=torch.float64, requires_grad=True)
    output = layer_norm(x, make(4), make(4, seed=1))
    close(output, make(4, seed=1).expand(2, 4))
    output.sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_large_number_in_half_precision_does_not_overflow(dtype):
    norm = RMSNorm(4).to(dtype)
    output = norm(torch.full((1, 4), 3000.0, dtype=dtype))  # 3000² does not fit into fp16
    assert output.dtype == dtype
    close(output.double(), torch.ones(1, 4).double(), 1e-2)


def test_a_norm_is_made_from_its_name():
    assert isinstance(make_norm("layer", 4, 1e-3), nn.LayerNorm) and make_norm("layer", 4, 1e-3).eps == 1e-3
    assert isinstance(make_norm("rms", 4, 1e-3), RMSNorm) and make_norm("rms", 4, 1e-3).eps == 1e-3


@error_table(
    [
        ("gain too short", lambda: layer_norm(make(2, 4), make(3), make(4)), ("gain", "(3,)", "(2, 4)")),
        ("shift too short", lambda: layer_norm(make(2, 4), make(4), make(3)), ("shift", "(3,)", "(2, 4)")),
        ("rms: gain", lambda: rms_norm(make(2, 4), make(2, 4)), ("gain", "(2, 4)")),
        ("no tensor", lambda: rms_norm(1.0, make(4)), ("x must be a torch.Tensor", "float")),
        ("rms: width", lambda: RMSNorm(4)(torch.zeros(2, 3)), ("gain", "(4,)", "(2, 3)")),
        ("width 0", lambda: RMSNorm(0), ("width", "0")),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
