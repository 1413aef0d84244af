"""Layer normalisation, written out, and its shorter relative of today, RMSNorm (chapters 09 and 13)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tutorial_lib.validation import require_positive, require_tensor

HALF = (torch.float16, torch.bfloat16)


def layer_norm(x: Tensor, gain: Tensor, shift: Tensor, *, eps: float = 1e-5) -> Tensor:
    """Give each vector mean 0 and variance 1, then a learned gain and shift (Ba et al. 2016, §3).

    The variance is the mean of the squared deviations (divided by D, not by
    D - 1), and eps is added to it inside the root. The layers use
    `torch.nn.LayerNorm`, which computes the same in one kernel.

    Args:
        x: (..., D)
        gain, shift: (D,)
        eps: keeps a constant vector from a division by zero.

    Returns:
        normalised (..., D)

    Raises:
        ValueError: if gain or shift do not have the width of x.
    """
    _check_gain(x, gain=gain, shift=shift)
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * gain + shift


def rms_norm(x: Tensor, gain: Tensor, *, eps: float = 1e-6) -> Tensor:
    """Divide each vector by its root mean square: no mean, no shift (Zhang & Sennrich 2019, §3).

    Half precision is squared in float32, where a large number does not overflow.

    Args:
        x: (..., D)
        gain: (D,)
        eps: added to the mean square inside the root.

    Returns:
        normalised (..., D), the dtype of x

    Raises:
        ValueError: if the gain does not have the width of x.
    """
    _check_gain(x, gain=gain)
    wide = x.float() if x.dtype in HALF else x
    scaled = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return gain * scaled.to(x.dtype)


class RMSNorm(nn.Module):
    """`rms_norm` with its learned gain.

    Args:
        width: D
        eps: see `rms_norm`.

    Shapes: (..., D) -> (..., D)
    """

    def __init__(self, width: int, eps: float = 1e-6):
        super().__init__()
        require_positive(width=width)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype in HALF:
            return rms_norm(x, self.weight, eps=self.eps)
        _check_gain(x, gain=self.weight)
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)  # the same in one call


def make_norm(kind: str, width: int, eps: float) -> nn.Module:
    """Return the normalisation that a `LayerConfig` names: "layer" or "rms"."""
    return {"layer": nn.LayerNorm, "rms": RMSNorm}[kind](width, eps=eps)


def _check_gain(x: Tensor, **named: Tensor) -> None:
    require_tensor("x", x)
    for name, tensor in named.items():
        require_tensor(name, tensor)
        if x.dim() == 0 or tuple(tensor.shape) != tuple(x.shape[-1:]):
            raise ValueError(
                f"{name} must have the shape (D,) of x, got {tuple(tensor.shape)} and {tuple(x.shape)}"
            )
