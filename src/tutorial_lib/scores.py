"""How well does a key match a query: the score functions of 2014 and 2015 (built in chapters 02 and 04)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tutorial_lib.attention import masked_softmax
from tutorial_lib.validation import require_like_parameters, require_positive, require_tensor


def dot_score(query: Tensor, key: Tensor) -> Tensor:
    """Score by the dot product alone: q · k  (Luong et al. 2015, §3.1, "dot").

    Args:
        query: (..., T, D)
        key:   (..., S, D)

    Returns:
        scores (..., T, S)

    Raises:
        ValueError: if the two widths, the leading dimensions or the dtypes differ.
    """
    _check_pair(query, key)
    if query.size(-1) != key.size(-1):
        raise ValueError(
            f"the dot product needs query and key of the same width, got {query.size(-1)} and {key.size(-1)}"
        )
    return query @ key.transpose(-2, -1)


def general_score(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    """Score through a learned matrix: qᵀ W k  (Luong et al. 2015, §3.1, "general").

    Args:
        query:  (..., T, Dq)
        key:    (..., S, Dk); its width may differ from the query's.
        weight: (Dq, Dk)

    Returns:
        scores (..., T, S)

    Raises:
        ValueError: if the matrix does not fit the two widths, or leading dimensions or dtypes differ.
    """
    _check_pair(query, key)
    _check_matrix("weight", weight, (query.size(-1), key.size(-1)))
    return query @ weight @ key.transpose(-2, -1)  # (T, Dq) (Dq, Dk) (Dk, S) -> (T, S)


def additive_score(
    query: Tensor, key: Tensor, weight_query: Tensor, weight_key: Tensor, weight_score: Tensor
) -> Tensor:
    """Score with a small network: vᵀ tanh(W_q q + W_k k)  (Bahdanau et al. 2015, A.1.2).

    Every pair (query, key) gets its own A numbers before they are summed, so
    the memory is A times that of the dot product.

    Args:
        query:        (..., T, Dq)
        key:          (..., S, Dk)
        weight_query: (Dq, A)
        weight_key:   (Dk, A)
        weight_score: (A,)

    Returns:
        scores (..., T, S)

    Raises:
        ValueError: if a weight does not fit its input, or leading dimensions or dtypes differ.
    """
    _check_pair(query, key)
    _check_matrix("weight_score", weight_score, (weight_query.size(-1),))
    _check_matrix("weight_query", weight_query, (query.size(-1), weight_score.size(0)))
    _check_matrix("weight_key", weight_key, (key.size(-1), weight_score.size(0)))
    return _additive(query @ weight_query, key @ weight_key, weight_score)


def attend(scores: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Finish any attention: softmax over the keys, then the weighted sum of the values.

    Args:
        scores: (..., T, S)
        value:  (..., S, Dv)
        mask:   bool, broadcastable to (..., T, S); True = may attend. A row
            without any True gives zeros.

    Returns:
        output (..., T, Dv) and weights (..., T, S).

    Raises:
        ValueError: if scores, values and mask do not fit; the message names both sides.
    """
    require_tensor("scores", scores)
    require_tensor("value", value)
    if value.dim() != scores.dim() or value.shape[:-2] != scores.shape[:-2]:
        raise ValueError(
            f"scores and value must have the same leading dimensions, "
            f"got {tuple(scores.shape)} and {tuple(value.shape)}"
        )
    if scores.size(-1) != value.size(-2):
        raise ValueError(
            f"there must be one score per value, got {scores.size(-1)} scores and {value.size(-2)} values"
        )
    weights = masked_softmax(scores, mask)
    return weights @ value, weights


class DotScore(nn.Module):
    """`dot_score` as a module, so that the three scores can be exchanged; it has no parameters."""

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return dot_score(query, key)


class GeneralScore(nn.Module):
    """`general_score` with its learned matrix.

    Args:
        query_width: Dq
        key_width:   Dk

    Shapes: query (..., T, Dq), key (..., S, Dk) -> scores (..., T, S)

    Raises:
        ValueError: if a width is not a positive integer, or the inputs do not fit.
    """

    def __init__(self, query_width: int, key_width: int):
        super().__init__()
        require_positive(query_width=query_width, key_width=key_width)
        self.weight = nn.Parameter(torch.empty(query_width, key_width))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return general_score(query, key, self.weight)

    def project_keys(self, key: Tensor) -> Tensor:
        """Do once for a sentence what no query changes: (..., S, Dk) -> (..., S, Dq)."""
        return key @ self.weight.T

    def compare(self, query: Tensor, projected: Tensor) -> Tensor:
        """Return the scores (..., T, S) of queries and projected keys, the same as `forward`'s."""
        return query @ projected.transpose(-2, -1)


class AdditiveScore(nn.Module):
    """`additive_score` with its learned weights.

    Args:
        query_width: Dq
        key_width:   Dk
        hidden:      A, the width inside the tanh

    Shapes: query (..., T, Dq), key (..., S, Dk) -> scores (..., T, S)

    Raises:
        ValueError: if a width is not a positive integer, or the inputs do not fit.
    """

    def __init__(self, query_width: int, key_width: int, hidden: int):
        super().__init__()
        require_positive(query_width=query_width, key_width=key_width, hidden=hidden)
        self.weight_query = nn.Parameter(torch.empty(query_width, hidden))
        self.weight_key = nn.Parameter(torch.empty(key_width, hidden))
        self.weight_score = nn.Parameter(torch.empty(hidden))
        nn.init.xavier_uniform_(self.weight_query)
        nn.init.xavier_uniform_(self.weight_key)
        nn.init.uniform_(self.weight_score, -(hidden**-0.5), hidden**-0.5)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return additive_score(query, key, self.weight_query, self.weight_key, self.weight_score)

    def project_keys(self, key: Tensor) -> Tensor:
        """Do once for a sentence what no query changes (Bahdanau et al. 2015, A.1.2): -> (..., S, A)."""
        return key @ self.weight_key

    def compare(self, query: Tensor, projected: Tensor) -> Tensor:
        """Return the scores (..., T, S) of queries and projected keys, the same as `forward`'s."""
        return _additive(query @ self.weight_query, projected, self.weight_score)


class ScoreAttention(nn.Module):
    """Attention with any score: softmax(score(query, key)) · value.

    Args:
        score: a module that maps (query, key) to scores (..., T, S), such as
            `DotScore`, `GeneralScore` or `AdditiveScore`.
    """

    def __init__(self, score: nn.Module):
        super().__init__()
        self.score = score

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return output (..., T, Dv) and weights (..., T, S); without values the keys are mixed."""
        for name, tensor in (("query", query), ("key", key)):
            require_tensor(name, tensor)
            if next(self.parameters(), None) is not None:
                require_like_parameters(name, tensor, self)
        return attend(self.score(query, key), key if value is None else value, mask)


def _additive(query: Tensor, key: Tensor, weight_score: Tensor) -> Tensor:
    pairs = query.unsqueeze(-2) + key.unsqueeze(-3)  # (..., T, 1, A) + (..., 1, S, A) -> (..., T, S, A)
    return torch.tanh(pairs) @ weight_score  # (..., T, S, A) -> (..., T, S)


def _check_pair(query: Tensor, key: Tensor) -> None:
    for name, tensor in (("query", query), ("key", key)):
        require_tensor(name, tensor)
        if tensor.dim() < 2 or not tensor.is_floating_point():
            raise ValueError(
                f"{name} must be floating point (..., length, width), "
                f"got {tensor.dtype} of {tuple(tensor.shape)}"
            )
    if query.shape[:-2] != key.shape[:-2]:
        raise ValueError(
            "query and key must have the same leading dimensions, "
            f"got {tuple(query.shape)} and {tuple(key.shape)}"
        )
    for what in ("dtype", "device"):
        pair = getattr(query, what), getattr(key, what)
        if pair[0] != pair[1]:
            raise ValueError(f"query and key must have the same {what}, got {pair[0]} and {pair[1]}")


def _check_matrix(name: str, weight: Tensor, shape: tuple[int, ...]) -> None:
    require_tensor(name, weight)
    if tuple(weight.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(weight.shape)}")
