"""Where a token stands: encodings that are added to embeddings, and schemes inside attention (chapter 07).

Added to the embeddings: `sinusoidal_encoding`, `SinusoidalPositions`, `LearnedPositions`.
Inside attention, in `relative_positions`: Shaw's vectors, T5's bias, ALiBi and rotary positions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tutorial_lib.validation import require_choice, require_positive, require_tensor


def positions_from_mask(real: Tensor) -> Tensor:
    """Number the real tokens of each row 0, 1, 2, ... wherever its padding stands.

    Args:
        real: bool (B, T); True = a real token.

    Returns:
        int64 (B, T). Padding repeats the number of the token before it (0 at the start).

    Raises:
        ValueError: if `real` is not a boolean tensor of two dimensions.
    """
    require_tensor("real", real)
    if real.dtype != torch.bool or real.dim() != 2:
        raise ValueError(f"real must be bool of shape (B, T), got {real.dtype} of {tuple(real.shape)}")
    return (real.cumsum(dim=-1) - 1).clamp(min=0)


def sinusoidal_encoding(
    positions: Tensor,
    width: int,
    *,
    base: float = 10000.0,
    layout: str = "adjacent",
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Give each position a vector of sines and cosines.

    PE(pos, 2i) = sin(pos / base^(2i/D)), PE(pos, 2i+1) = cos(pos / base^(2i/D))
    (Vaswani et al. 2017, §3.5). Pair i turns by base^(-2i/D) radians per token.
    With an odd D the last pair has only its sine.

    Args:
        positions: integers, any shape (...).
        width:     D, from 1.
        base:      sets the longest wavelength, 2π · base^((D-2)/D) tokens.
        layout:    "adjacent" interleaves sine and cosine as in the paper;
            "halves" puts all sines before all cosines (Marian).
        dtype:     of the result; angles are computed in float64.

    Returns:
        encoding (..., D)

    Raises:
        ValueError: if positions are not integers, or width, base or layout is impossible.
    """
    require_tensor("positions", positions)
    if positions.is_floating_point() or positions.dtype == torch.bool:
        raise ValueError(f"positions must be integers, got {positions.dtype}")
    require_positive(width=width)
    require_choice("layout", layout, ("adjacent", "halves"))
    if base <= 0:
        raise ValueError(f"base must be positive, got {base}")
    exponents = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) / width
    angles = positions.to(torch.float64)[..., None] * base**-exponents  # (...) -> (..., ceil(D/2))
    sine, cosine = angles.sin(), angles.cos()
    if layout == "halves":
        encoding = torch.cat([sine, cosine], dim=-1)
    else:
        encoding = torch.stack([sine, cosine], dim=-1).flatten(-2)  # (..., D/2, 2) -> (..., D)
    return encoding[..., :width].to(dtype)  # an odd width drops the last cosine


class SinusoidalPositions(nn.Module):
    """`sinusoidal_encoding` as a module: no parameters, no table and so no longest length.

    Args:
        width: D
        base, layout: see `sinusoidal_encoding`.

    Shapes: positions (...) -> (..., D)
    """

    def __init__(self, width: int, *, base: float = 10000.0, layout: str = "adjacent"):
        super().__init__()
        require_positive(width=width)
        require_choice("layout", layout, ("adjacent", "halves"))
        self.width, self.base, self.layout = width, base, layout

    def forward(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        return sinusoidal_encoding(positions, self.width, base=self.base, layout=self.layout, dtype=dtype)


class LearnedPositions(nn.Module):
    """One trained vector per position, up to a longest length (Gehring et al. 2017; Devlin et al. 2019).

    Args:
        max_length: number of positions that have a vector.
        width: D

    Shapes: positions (...) -> (..., D)

    Raises:
        ValueError: if a position has no vector; the message names the longest length.
    """

    def __init__(self, max_length: int, width: int):
        super().__init__()
        require_positive(max_length=max_length, width=width)
        self.table = nn.Embedding(max_length, width)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, positions: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        require_tensor("positions", positions)
        if positions.is_floating_point() or positions.dtype == torch.bool:
            raise ValueError(f"positions must be integers, got {positions.dtype}")
        longest = self.table.num_embeddings
        if positions.numel():
            low, high = int(positions.min()), int(positions.max())
            if low < 0 or high >= longest:
                raise ValueError(
                    f"this model has learned positions 0 to {longest - 1} (max_length={longest}), "
                    f"got positions {low} to {high}"
                )
        vectors = self.table(positions)
        return vectors if dtype is None else vectors.to(dtype)
