import pytest
import torch
import torch.nn.functional as F
from support import assert_raises, close, error_table, make, seeded, set_off

from tutorial_lib.feedforward import FeedForward, SwiGLU, make_feed_forward

REFERENCES = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": lambda x: x * torch.sigmoid(x),
}


@pytest.mark.parametrize("activation", REFERENCES)
def test_it_is_two_linear_maps_with_a_non_linearity_between(activation):
    network = set_off(seeded(FeedForward, 3, 5, activation=activation).double())
    x = make(2, 4, 3)
    hidden = REFERENCES[activation](x @ network.expand.weight.T + network.expand.bias)
    close(network(x), hidden @ network.contract.weight.T + network.contract.bias)


def test_swiglu_gates_one_projection_with_another():
    network = set_off(seeded(SwiGLU, 3, 5).double())
    x = make(2, 4, 3)
    gate, up = x @ network.gate.weight.T, x @ network.up.weight.T
    close(network(x), (gate * torch.sigmoid(gate) * up) @ network.down.weight.T)
    assert network.gate.bias is None


@pytest.mark.parametrize("kind", [*REFERENCES, "swiglu"])
def test_each_position_is_computed_by_itself(kind):
    network = seeded(make_feed_forward, kind, 3, 5).double()
    x = make(2, 4, 3)
    close(network(x)[:, 2], network(x[:, 2]))
    assert network(make(2, 0, 3)).shape == (2, 0, 3)


@pytest.mark.parametrize("kind", ["relu", "swiglu"])
def test_dropout_acts_only_in_training(kind):
    network = seeded(make_feed_forward, kind, 3, 50, dropout=0.5).double()
    x = make(2, 4, 3)
    assert not torch.equal(network(x), network(x))
    network.eval()
    assert torch.equal(network(x), network(x))


def test_with_two_thirds_of_the_width_swiglu_has_as_many_parameters():
    def count(network):
        return sum(p.numel() for p in network.parameters())

    assert count(SwiGLU(12, 32)) == count(FeedForward(12, 48, bias=False))


@error_table(
    [
        ("activation", lambda: FeedForward(3, 5, activation="tanh"), ("'relu'", "'tanh'")),
        ("hidden 0", lambda: FeedForward(3, 0), ("hidden", "0")),
        ("dropout 1", lambda: SwiGLU(3, 5, dropout=1.0), ("[0, 1)", "1.0")),
        ("width", lambda: FeedForward(3, 5)(torch.zeros(2, 4)), ("(..., 3)", "(2, 4)")),
        ("dtype", lambda: SwiGLU(3, 5)(make(2, 3)), ("float32", "float64")),
        ("no tensor", lambda: SwiGLU(3, 5)([1.0]), ("torch.Tensor", "list")),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
