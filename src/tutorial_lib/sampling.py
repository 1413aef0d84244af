"""From scores to the distribution that the next token is drawn from: temperature, top-k, top-p (chapter 12)."""

from __future__ import annotations

import math
from numbers import Real

import torch
from torch import Tensor

from tutorial_lib.validation import require_positive, require_tensor


def next_token_probabilities(
    scores: Tensor, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """Turn scores into the distribution to draw from: temperature first, then top-k, then top-p.

    softmax(scores / temperature), cut off and renormalised after each cut.
    A temperature below 1 sharpens the distribution; towards 0 it becomes
    greedy decoding. What the cut must not separate, tokens of equal
    probability, it keeps together: a few more than k may remain.

    Args:
        scores: (..., V); half precision is computed in float32.
        temperature: above 0.
        top_k: keep the k likeliest tokens (Fan et al. 2018, §5.4); k >= V keeps all.
        top_p: keep the smallest number of likeliest tokens that together have at
            least this probability, the nucleus (Holtzman et al. 2020, §3.1); 1 keeps all.

    Returns:
        probabilities (..., V), float32 or float64; each row sums to 1.

    Raises:
        ValueError: if a setting is out of range, or a row has no finite largest score.
    """
    check_sampling(temperature, top_k, top_p)
    require_tensor("scores", scores)
    if not scores.is_floating_point() or scores.dim() == 0 or scores.size(-1) == 0:
        raise ValueError(f"scores must be floats (..., V), got {scores.dtype} of {tuple(scores.shape)}")
    scores = scores if scores.dtype == torch.float64 else scores.float()
    largest = scores.amax(dim=-1, keepdim=True)
    if not largest.isfinite().all():
        raise ValueError(f"each row needs a finite largest score, got {largest.flatten().tolist()}")
    # The largest becomes 0 first: divided by a tiny temperature it would be infinite otherwise.
    # A float64 that float32 rounds to 0 or to infinity would still make it NaN.
    limits = torch.finfo(scores.dtype)
    scores = (scores - largest) / min(max(temperature, limits.tiny), limits.max)
    if top_k is not None and top_k < scores.size(-1):
        scores = keep_top_k(scores, top_k)
    probabilities = torch.softmax(scores, dim=-1)
    if top_p is not None and top_p < 1.0:
        probabilities = keep_top_p(probabilities, top_p)
    return probabilities


def keep_top_k(scores: Tensor, k: int) -> Tensor:
    """Set all but the k largest scores of each row to -inf; what equals the k-th stays too.

    Args:
        scores: (..., V)
        k: from 1 to V.

    Returns:
        scores (..., V)

    Raises:
        ValueError: if k is out of range.
    """
    require_positive(k=k)
    if k > scores.size(-1):
        raise ValueError(f"k must be at most V = {scores.size(-1)}, got {k}")
    kth = scores.topk(k, dim=-1).values[..., -1:]  # (..., 1)
    return scores.masked_fill(scores < kth, float("-inf"))


def keep_top_p(probabilities: Tensor, p: float) -> Tensor:
    """Keep the nucleus of each row and renormalise; what equals its least likely token stays too.

    Args:
        probabilities: (..., V), each row sums to 1.
        p: above 0, at most 1.

    Returns:
        probabilities (..., V)

    Raises:
        ValueError: if p is out of range.
    """
    _check_top_p("p", p)
    ordered = probabilities.sort(dim=-1, descending=True).values
    before = ordered.cumsum(dim=-1) - ordered  # the probability of all likelier tokens
    last = (before < p).sum(dim=-1, keepdim=True) - 1  # the likeliest has 0 before it: it always stays
    kept = probabilities.masked_fill(probabilities < ordered.gather(-1, last), 0.0)
    return kept / kept.sum(dim=-1, keepdim=True)


def check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Expect settings of `next_token_probabilities` that are in range; raise a ValueError otherwise."""
    if not isinstance(temperature, Real) or not 0.0 < temperature < math.inf:
        raise ValueError(f"temperature must be a finite number above 0, got {temperature!r}")
    if top_k is not None:
        require_positive(top_k=top_k)
    if top_p is not None:
        _check_top_p("top_p", top_p)


def _check_top_p(name: str, p: float) -> None:
    if not isinstance(p, Real) or not 0.0 < p <= 1.0:
        raise ValueError(f"{name} must lie above 0 and at most at 1, got {p!r}")
