"""Ids into vectors: token, position and segment embeddings in one place (built in chapters 01 and 07)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tutorial_lib.positions import LearnedPositions, SinusoidalPositions
from tutorial_lib.validation import require_choice, require_ids, require_positive, require_probability

ADDED_POSITIONS = ("sinusoidal", "sinusoidal_halves", "learned")


class TokenEmbedding(nn.Module):
    """Look up each token's vector, scale it, add where it stands, then perhaps normalise; dropout last.

    Args:
        vocabulary: number of ids, V.
        width:      D
        positions:  "sinusoidal", "sinusoidal_halves" (Marian's layout), "learned", or
            any other name: nothing is added, because positions enter elsewhere or nowhere.
        max_length: number of learned positions.
        scale:      factor of the token vectors; sqrt(D) in the paper (Vaswani et al. 2017, §3.4).
        segments:   number of learned segment vectors (BERT has 2), 0 for none.
        norm_eps:   eps of a layer normalisation after the sum (BERT has one); None for none.
        dropout:    probability of dropping a number of the sum while training.

    Raises:
        ValueError: if a size is impossible, an id or a position has no vector.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        positions: str = "sinusoidal",
        max_length: int | None = None,
        scale: float = 1.0,
        segments: int = 0,
        norm_eps: float | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        require_positive(vocabulary=vocabulary, width=width)
        require_probability("dropout", dropout)
        self.tokens = nn.Embedding(vocabulary, width)
        self.scale = scale
        self.positions = None
        if positions == "learned":
            self.positions = LearnedPositions(max_length, width)
        elif positions in ADDED_POSITIONS:
            layout = "halves" if positions == "sinusoidal_halves" else "adjacent"
            self.positions = SinusoidalPositions(width, layout=layout)
        self.segments = nn.Embedding(segments, width) if segments else None
        self.norm = nn.Identity() if norm_eps is None else nn.LayerNorm(width, eps=norm_eps)
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.tokens.weight, std=0.02)
        if self.segments is not None:
            nn.init.normal_(self.segments.weight, std=0.02)

    def forward(
        self, ids: Tensor, positions: Tensor | None = None, segment_ids: Tensor | None = None
    ) -> Tensor:
        """Embed ids (B, T) as (B, T, D).

        Args:
            ids: (B, T)
            positions: integers (T,), (1, T) or (B, T); 0 to T - 1 if left out.
            segment_ids: (B, T); all 0 if left out.
        """
        require_ids("ids", ids, self.tokens.num_embeddings, like=self)
        if positions is None:
            positions = torch.arange(ids.size(1), device=ids.device)
        x = self.tokens(ids) * self.scale  # (B, T) -> (B, T, D)
        if self.positions is not None:
            x = x + self.positions(positions, x.dtype)
        if self.segments is not None:
            segment_ids = torch.zeros_like(ids) if segment_ids is None else segment_ids
            require_ids("segment_ids", segment_ids, self.segments.num_embeddings, like=self)
            if segment_ids.shape != ids.shape:
                raise ValueError(
                    f"segment_ids must have the shape of ids {tuple(ids.shape)}, got {tuple(segment_ids.shape)}"
                )
            x = x + self.segments(segment_ids)
        elif segment_ids is not None:
            raise ValueError("this model has no segment vectors, got segment_ids")
        return self.dropout(self.norm(x))


def check_positions_name(name: str, max_length: int | None, others: tuple[str, ...]) -> None:
    """Expect a known name, and a longest length where positions are learned.

    Raises:
        ValueError: with the known names, or if learned positions have no max_length.
    """
    require_choice("positions", name, (*ADDED_POSITIONS, *others))
    if max_length is not None:
        require_positive(max_length=max_length)
    elif name == "learned":
        raise ValueError('positions="learned" needs max_length, got None')
