"""The position-wise feed-forward network, in its 2017 form and as SwiGLU (chapters 09 and 13)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tutorial_lib.validation import (
    require_choice,
    require_like_parameters,
    require_positive,
    require_probability,
    require_tensor,
)

ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),  # GPT-2's
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """Two linear maps with a non-linearity between, at each position by itself (Vaswani et al. 2017, §3.3).

    FFN(x) = act(x W_1 + b_1) W_2 + b_2

    Args:
        width:  D
        hidden: width in between, 4 D in the paper.
        activation: "relu", "gelu", "gelu_tanh" or "silu".
        bias:   whether the two maps add a bias.
        dropout: probability of dropping a hidden number while training.

    Shapes: (..., D) -> (..., D)
    """

    def __init__(
        self, width: int, hidden: int, *, activation: str = "relu", bias: bool = True, dropout: float = 0.0
    ):
        super().__init__()
        require_positive(width=width, hidden=hidden)
        require_choice("activation", activation, tuple(ACTIVATIONS))
        require_probability("dropout", dropout)
        self.activation = activation
        self.expand = nn.Linear(width, hidden, bias=bias)
        self.contract = nn.Linear(hidden, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        _check_input(x, self.expand)
        hidden = ACTIVATIONS[self.activation](self.expand(x))  # (..., D) -> (..., hidden)
        return self.contract(self.dropout(hidden))


class SwiGLU(nn.Module):
    """A feed-forward network in which one projection gates another (Shazeer 2020, §2).

    SwiGLU(x) = (silu(x W_gate) * (x W_up)) W_down

    Three matrices instead of two: with 2/3 of the hidden width it has as many
    parameters as `FeedForward`.

    Args:
        width:  D
        hidden: width in between.
        bias:   whether the three maps add a bias.
        dropout: probability of dropping a hidden number while training.

    Shapes: (..., D) -> (..., D)
    """

    def __init__(self, width: int, hidden: int, *, bias: bool = False, dropout: float = 0.0):
        super().__init__()
        require_positive(width=width, hidden=hidden)
        require_probability("dropout", dropout)
        self.gate = nn.Linear(width, hidden, bias=bias)
        self.up = nn.Linear(width, hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        _check_input(x, self.gate)
        hidden = F.silu(self.gate(x)) * self.up(x)  # (..., D) -> (..., hidden)
        return self.down(self.dropout(hidden))


def make_feed_forward(
    kind: str, width: int, hidden: int, *, bias: bool = True, dropout: float = 0.0
) -> FeedForward | SwiGLU:
    """Return the network that a `LayerConfig` names: "swiglu" or an activation of `FeedForward`."""
    if kind == "swiglu":
        return SwiGLU(width, hidden, bias=bias, dropout=dropout)
    return FeedForward(width, hidden, activation=kind, bias=bias, dropout=dropout)


def _check_input(x: Tensor, first: nn.Linear) -> None:
    require_tensor("x", x)
    if x.dim() == 0 or x.size(-1) != first.in_features:
        raise ValueError(f"x must have shape (..., {first.in_features}), got {tuple(x.shape)}")
    require_like_parameters("x", x, first)
