"""Multi-head attention, from one projection per head to grouped heads with a cache (built in chapter 06)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tutorial_lib.attention import fused_attention, masked_softmax, scaled_dot_product_attention
from tutorial_lib.cache import KeyValueCache
from tutorial_lib.relative_positions import PositionScheme
from tutorial_lib.validation import (
    require_like_parameters,
    require_positive,
    require_probability,
    require_same_batch,
    require_tensor,
    require_vectors,
)


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    w_query: Tensor,
    w_key: Tensor,
    w_value: Tensor,
    w_output: Tensor,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Let each head project the whole vectors in its own way, attend, and join the results.

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V),  Concat(head_1, ..., head_H) W^O
    (Vaswani et al. 2017, §3.2.2). With fewer key/value heads than query heads,
    neighbouring query heads share one (Ainslie et al. 2023, §2.2).

    Args:
        query: (B, T, D)
        key, value: (B, S, D)
        w_query: (H, D, Dh), one projection of the whole vector per head.
        w_key, w_value: (H_kv, D, Dh) with H_kv a divisor of H.
        w_output: (H * Dh, D)
        mask: bool, (T, S) or broadcastable to (B, H, T, S); True = may attend.

    Returns:
        output (B, T, D) and weights (B, H, T, S).

    Raises:
        ValueError: if the projections do not fit the inputs or each other, or the mask does not fit.
    """
    _check_projections(query, key, value, w_query, w_key, w_value, w_output)
    heads, shared_by = len(w_query), len(w_query) // len(w_key)
    outputs, weights = [], []
    for head in range(heads):
        pair = head // shared_by  # which key/value head this query head uses
        head_mask = mask
        if mask is not None and mask.dim() == 4:
            head_mask = mask[:, head if mask.size(1) > 1 else 0]  # (B, H, T, S) -> (B, T, S)
        head_output, head_weights = scaled_dot_product_attention(
            query @ w_query[head],  # (B, T, D) (D, Dh) -> (B, T, Dh)
            key @ w_key[pair],
            value @ w_value[pair],
            head_mask,
        )
        outputs.append(head_output)
        weights.append(head_weights)
    joined = torch.cat(outputs, dim=-1)  # H times (B, T, Dh) -> (B, T, H * Dh)
    return joined @ w_output, torch.stack(weights, dim=1)


class MultiHeadAttention(nn.Module):
    """`multi_head_attention` for training and decoding: all heads in one matrix product, positions, a cache.

    The projections of all heads are stacked side by side in one matrix;
    `head_projections` takes them apart again.

    Args:
        width: D
        heads: H, the number of query heads.
        kv_heads:   H_kv, the number of key/value heads, a divisor of H; H if left out.
        head_width: Dh; D / H if left out.
        memory_width: width of the sequence that is attended to; D if left out.
        bias:     whether the four projections add a bias.
        dropout:  probability of dropping an attention weight while training.
        position: what to do about positions in self-attention; nothing if left out.

    Raises:
        ValueError: if heads do not divide the width, or kv_heads the heads.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        head_width: int | None = None,
        memory_width: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        position: PositionScheme | None = None,
    ):
        super().__init__()
        require_positive(width=width, heads=heads)
        kv_heads = heads if kv_heads is None else kv_heads
        memory_width = width if memory_width is None else memory_width
        require_positive(kv_heads=kv_heads, memory_width=memory_width)
        if head_width is None and width % heads:
            raise ValueError(f"the width must be divisible by the number of heads, got {width} and {heads}")
        if heads % kv_heads:
            raise ValueError(f"heads must be divisible by kv_heads, got {heads} and {kv_heads}")
        head_width = width // heads if head_width is None else head_width
        require_positive(head_width=head_width)
        require_probability("dropout", dropout)
        self.width, self.heads, self.kv_heads, self.head_width = width, heads, kv_heads, head_width
        self.memory_width, self.dropout = memory_width, dropout
        self.query_projection = nn.Linear(width, heads * head_width, bias=bias)
        self.key_projection = nn.Linear(memory_width, kv_heads * head_width, bias=bias)
        self.value_projection = nn.Linear(memory_width, kv_heads * head_width, bias=bias)
        self.output_projection = nn.Linear(heads * head_width, width, bias=bias)
        self.position = PositionScheme() if position is None else position
        self.has_position = position is not None
        for projection in (self.query_projection, self.key_projection, self.value_projection):
            nn.init.xavier_uniform_(projection.weight)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        cache: KeyValueCache | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from x to x (self-attention) or, if there is a memory, from x to it (cross-attention).

        Args:
            x:      (B, T, D), where the queries come from.
            memory: (B, S, memory_width), where keys and values come from; x if left out.
            mask:   bool, (T, S) or broadcastable to (B, H, T, S); True = may attend.
            positions: integers (1, T) or (B, T) of the tokens of x, for a position
                scheme; if left out they count on from the end of the cache.
            cache:  self-attention: earlier keys and values, S counts them too, and
                the new ones are appended. Cross-attention: keys and values of the
                memory, computed at the first call and used again at later ones.
            need_weights: return the weights; without them the faster fused kernels serve.

        Returns:
            output (B, T, D), and weights (B, H, T, S) before dropout or None.

        Raises:
            ValueError: if shapes, dtypes, devices, mask, positions or cache do not fit.
        """
        require_vectors("x", x, self.width)
        require_like_parameters("x", x, self)
        query = self._split(self.query_projection(x), self.heads)
        if memory is None:
            query, key, value, *places = self._self_inputs(x, query, positions, cache)
        else:
            key, value = self._memory_inputs(x, memory, cache)
            places = None
        if self.kv_heads < self.heads:  # (B, H_kv, S, Dh) -> (B, H, S, Dh): neighbours share
            key, value = (kv.repeat_interleave(self.heads // self.kv_heads, dim=1) for kv in (key, value))
        output, weights = self._attend(query, key, value, mask, places, need_weights)
        joined = output.transpose(1, 2).flatten(2)  # (B, H, T, Dh) -> (B, T, H * Dh)
        return self.output_projection(joined), weights

    def head_projections(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return w_query, w_key, w_value (heads, D, Dh) and w_output (H * Dh, D), for the function above."""

        def apart(projection: nn.Linear, heads: int) -> Tensor:
            return projection.weight.T.unflatten(1, (heads, -1)).transpose(0, 1)  # (D, H * Dh) -> (H, D, Dh)

        return (
            apart(self.query_projection, self.heads),
            apart(self.key_projection, self.kv_heads),
            apart(self.value_projection, self.kv_heads),
            self.output_projection.weight.T,
        )

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, self.head_width)).transpose(1, 2)  # (B, T, H * Dh) -> (B, H, T, Dh)

    def _self_inputs(
        self, x: Tensor, query: Tensor, positions: Tensor | None, cache: KeyValueCache | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        if self.memory_width != self.width:
            raise ValueError(
                f"this layer attends to a memory of width {self.memory_width}, "
                f"got none and an x of width {self.width}"
            )
        if positions is None:
            start = 0 if cache is None else cache.length
            positions = torch.arange(start, start + x.size(1), device=x.device)[None]  # (1, T)
        key = self._split(self.key_projection(x), self.kv_heads)
        value = self._split(self.value_projection(x), self.kv_heads)
        query, key = self.position.rotate(query, positions), self.position.rotate(key, positions)
        if cache is None:
            return query, key, value, positions, positions
        key, value, key_positions = cache.extend(key, value, positions)
        return query, key, value, positions, key_positions

    def _memory_inputs(self, x: Tensor, memory: Tensor, cache: KeyValueCache | None) -> tuple[Tensor, Tensor]:
        if self.has_position:
            raise ValueError(
                f"{type(self.position).__name__} compares positions of one sequence, got x and another memory"
            )
        require_vectors("memory", memory, self.memory_width)
        require_like_parameters("memory", memory, self)
        require_same_batch("x", x, "memory", memory)
        if cache is not None and cache.keys is not None:
            if cache.length != memory.size(1):
                raise ValueError(
                    f"the cache holds {cache.length} keys but the memory has {memory.size(1)}; "
                    "start a new cache for each memory"
                )
            return cache.keys, cache.values
        key = self._split(self.key_projection(memory), self.kv_heads)
        value = self._split(self.value_projection(memory), self.kv_heads)
        if cache is not None:
            positions = torch.arange(memory.size(1), device=memory.device)[None]
            cache.extend(key, value, positions)
        return key, value

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        places: list[Tensor] | None,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        dropout_p = self.dropout if self.training else 0.0
        bias = None if places is None else self.position.score_bias(query, *places)
        if bias is None and not need_weights:
            return fused_attention(query, key, value, mask, dropout_p=dropout_p), None
        if bias is None:
            return scaled_dot_product_attention(query, key, value, mask, dropout_p=dropout_p)
        scores = (query / query.size(-1) ** 0.5) @ key.transpose(-2, -1) + bias  # (B, H, T, S)
        weights = masked_softmax(scores, mask)
        mixing = F.dropout(weights, dropout_p) if dropout_p > 0 else weights
        output = mixing @ value
        extra = self.position.value_bias(mixing, *places)
        return output if extra is None else output + extra, weights if need_weights else None


def _check_projections(query, key, value, w_query, w_key, w_value, w_output) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        require_tensor(name, tensor)
        if tensor.dim() != 3:
            raise ValueError(f"{name} must have shape (B, length, D), got {tuple(tensor.shape)}")
    pairs = (("w_query", w_query, query), ("w_key", w_key, key), ("w_value", w_value, value))
    for name, weight, x in pairs:
        require_tensor(name, weight)
        if weight.dim() != 3 or weight.size(1) != x.size(-1):
            raise ValueError(f"{name} must have shape (heads, {x.size(-1)}, Dh), got {tuple(weight.shape)}")
    if len(w_key) != len(w_value) or len(w_query) % len(w_key):
        raise ValueError(
            "w_key and w_value need equally many heads, a divisor of w_query's, "
            f"got {len(w_key)}, {len(w_value)} and {len(w_query)}"
        )
    joined = len(w_query) * w_value.size(-1)
    if w_output.dim() != 2 or w_output.size(0) != joined:
        raise ValueError(f"w_output must have shape ({joined}, D), got {tuple(w_output.shape)}")
