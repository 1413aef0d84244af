"""Structured self-attention: a sentence as a small matrix, one row per hop (built in chapter 03)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tutorial_lib.attention import masked_softmax
from tutorial_lib.validation import (
    require_like_parameters,
    require_positive,
    require_tensor,
    require_vectors,
)


class StructuredSelfAttention(nn.Module):
    """Weigh the words of a sentence in several ways at once (Lin et al. 2017, §2.1, eq. 6-7).

    A = softmax(W_s2 tanh(W_s1 Hᵀ)),  M = A H

    The softmax runs over the words. Each row of A is one hop: a weighting of
    the words against a learned vector, not of words against words.

    Args:
        width:  of the word vectors, 2u in the paper.
        hidden: d_a, the width inside the tanh.
        hops:   r, the number of rows of A.

    Raises:
        ValueError: if a size is not a positive integer.
    """

    def __init__(self, width: int, hidden: int, hops: int):
        super().__init__()
        require_positive(width=width, hidden=hidden, hops=hops)
        self.width = width
        self.first = nn.Linear(width, hidden, bias=False)  # W_s1
        self.second = nn.Linear(hidden, hops, bias=False)  # W_s2

    def forward(self, states: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Summarise a sentence.

        Args:
            states: H, (B, S, width)
            mask:   bool (B, S), True = a real word. A sentence without any gives zeros.

        Returns:
            M (B, hops, width) and A (B, hops, S).

        Raises:
            ValueError: if shapes, dtype, device or mask do not fit.
        """
        require_vectors("states", states, self.width)
        require_like_parameters("states", states, self)
        if mask is not None:
            require_tensor("mask", mask)
            if mask.shape != states.shape[:2]:
                raise ValueError(f"mask must have shape {tuple(states.shape[:2])}, got {tuple(mask.shape)}")
            mask = mask[:, None]  # (B, S) -> (B, 1, S): the same for every hop
        scores = self.second(torch.tanh(self.first(states)))  # (B, S, width) -> (B, S, hops)
        weights = masked_softmax(scores.transpose(1, 2), mask)  # (B, hops, S)
        return weights @ states, weights


def redundancy_penalty(weights: Tensor) -> Tensor:
    """Measure how much the hops look at the same words (Lin et al. 2017, §2.2, eq. 8).

    P = || A Aᵀ - I ||²_F, the mean over the batch. It is 0 only if each hop
    looks at a single word and no two hops at the same one.

    Args:
        weights: A, (B, hops, S)

    Returns:
        scalar, at least 0

    Raises:
        ValueError: if the weights do not have three dimensions.
    """
    require_tensor("weights", weights)
    if weights.dim() != 3 or not weights.is_floating_point():
        raise ValueError(
            f"weights must be floating point (B, hops, S), got {weights.dtype} of {tuple(weights.shape)}"
        )
    overlap = weights @ weights.transpose(1, 2)  # (B, hops, hops)
    identity = torch.eye(weights.size(1), dtype=weights.dtype, device=weights.device)
    return (overlap - identity).square().sum(dim=(1, 2)).mean()
