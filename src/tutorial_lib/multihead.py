"""Multi-head attention, from one projection per head to grouped heads with a cache (built in chapter 06).

Every layer of the book's Transformers holds `MultiHeadAttention`; it attends with the functions of `attention`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tutorial_lib.attention import grouped_attention, masked_softmax, scaled_dot_product_attention
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
        key, value: (B, S, D); their D may differ from the query's.
        w_query: (H, D, Dh), one projection of the whole vector per head.
        w_key, w_value: (H_kv, D, Dh) with H_kv a divisor of H.
        w_output: (H * Dh, D)
        mask: bool, (T, S) or four dimensions that broadcast to (B, H, T, S); True = may attend.

    Returns:
        output (B, T, D) and weights (B, H, T, S).

    Raises:
        ValueError: if the projections do not fit the inputs or each other, or the mask does not fit.
    """
    _check_projections((query, key, value), (w_query, w_key, w_value), w_output, mask)
    heads, kv_heads = len(w_query), len(w_key)
    outputs, weights = [], []
    for head in range(heads):
        kv_head = head // (heads // kv_heads)  # neighbouring query heads share one
        head_mask = mask
        if mask is not None and mask.dim() == 4:
            head_mask = mask.expand(-1, heads, -1, -1)[:, head]  # (B, H, T, S) -> (B, T, S)
        head_output, head_weights = scaled_dot_product_attention(
            query @ w_query[head],  # (B, T, D) (D, Dh) -> (B, T, Dh)
            key @ w_key[kv_head],
            value @ w_value[kv_head],
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
        position: a scheme such as `Rotary`, for positions inside self-attention; a layer
            that has one refuses a memory.

    Raises:
        ValueError: if a size or probability is impossible, heads do not divide the width
            (and no head_width is given), or kv_heads do not divide the heads.
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
        self.has_position = position is not None
        self.position = position if self.has_position else PositionScheme()  # one that does nothing
        # For a square matrix Xavier keeps the variance of its input; nn.Linear's own start divides it
        # by 3. The output projection keeps that start, as in nn.MultiheadAttention.
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
            mask:   bool, (T, S) or four dimensions that broadcast to (B, H, T, S); True = may attend.
            positions: integers (1, T) or (B, T) of the tokens of x, for a position
                scheme; if left out they count on from the end of the cache. Unused
                with a memory.
            cache:  is changed. Self-attention: earlier keys and values; the new ones
                are appended, and S counts both. Cross-attention: keys and values of the
                memory, computed at the first call and used again at later ones, whatever
                the memory holds then; only its length is compared.
            need_weights: return the weights; without them the faster fused kernels serve,
                unless the position scheme changes the scores.

        Returns:
            output (B, T, D), and weights (B, H, T, S) before dropout or None.

        Raises:
            ValueError: if shapes, dtypes, devices, mask, positions or cache do not fit.
        """
        require_vectors("x", x, self.width)
        require_like_parameters("x", x, self.query_projection)
        query = self._split(self.query_projection(x), self.heads)  # (B, H, T, Dh)
        if memory is None:
            positions = self._next_positions(x, cache) if positions is None else positions
            query = self.position.rotate(query, positions)
            key, value, key_positions = self._keys_and_values_of_x(x, positions, cache)
            both_positions = positions, key_positions
        else:
            key, value = self._keys_and_values_of_memory(x, memory, cache)
            both_positions = None
        output, weights = self._attend(query, key, value, mask, both_positions, need_weights)
        joined = output.transpose(1, 2).flatten(2)  # (B, H, T, Dh) -> (B, T, H * Dh)
        return self.output_projection(joined), weights

    def head_projections(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the four matrices as `multi_head_attention` takes them; it has no biases, so these stay behind.

        Returns:
            w_query (H, D, Dh), w_key and w_value (H_kv, memory_width, Dh), w_output (H * Dh, D)
        """

        def by_head(projection: nn.Linear, heads: int) -> Tensor:
            return projection.weight.T.unflatten(1, (heads, -1)).transpose(0, 1)  # (D, H * Dh) -> (H, D, Dh)

        return (
            by_head(self.query_projection, self.heads),
            by_head(self.key_projection, self.kv_heads),
            by_head(self.value_projection, self.kv_heads),
            self.output_projection.weight.T,
        )

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, self.head_width)).transpose(1, 2)  # (B, T, H * Dh) -> (B, H, T, Dh)

    def _next_positions(self, x: Tensor, cache: KeyValueCache | None) -> Tensor:
        start = 0 if cache is None else cache.length
        return torch.arange(start, start + x.size(1), device=x.device)[None]  # (1, T)

    def _keys_and_values_of_x(
        self, x: Tensor, positions: Tensor, cache: KeyValueCache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return key and value (B, H_kv, S, Dh) and the positions (1 or B, S), what is cached included."""
        if self.memory_width != self.width:
            raise ValueError(
                f"this layer attends to a memory of width {self.memory_width}, "
                f"got none and an x of width {self.width}"
            )
        key = self._split(self.key_projection(x), self.kv_heads)
        value = self._split(self.value_projection(x), self.kv_heads)
        key = self.position.rotate(key, positions)
        return (key, value, positions) if cache is None else cache.extend(key, value, positions)

    def _keys_and_values_of_memory(
        self, x: Tensor, memory: Tensor, cache: KeyValueCache | None
    ) -> tuple[Tensor, Tensor]:
        """Return key and value (B, H_kv, S, Dh) of the memory, from the cache if it has them."""
        if self.has_position:
            raise ValueError(
                f"{type(self.position).__name__} compares positions of one sequence, got x and another memory"
            )
        require_vectors("memory", memory, self.memory_width)
        require_like_parameters("memory", memory, self.query_projection)
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
        both_positions: tuple[Tensor, Tensor] | None,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        dropout_p = self.dropout if self.training else 0.0
        score_bias = None if both_positions is None else self.position.score_bias(query, *both_positions)
        if score_bias is None and not need_weights:
            return grouped_attention(query, key, value, mask, dropout_p=dropout_p), None
        if self.kv_heads < self.heads:  # (B, H_kv, S, Dh) -> (B, H, S, Dh): neighbours share
            key, value = (kv.repeat_interleave(self.heads // self.kv_heads, dim=1) for kv in (key, value))
        if score_bias is None:
            return scaled_dot_product_attention(query, key, value, mask, dropout_p=dropout_p)
        # `scaled_dot_product_attention` again, because it has no place for what a scheme adds.
        scores = (query / query.size(-1) ** 0.5) @ key.transpose(-2, -1) + score_bias  # (B, H, T, S)
        weights = masked_softmax(scores, mask)
        mixing = F.dropout(weights, dropout_p) if dropout_p > 0 else weights
        output = mixing @ value
        value_bias = self.position.value_bias(mixing, *both_positions)
        if value_bias is not None:
            output = output + value_bias
        return output, weights if need_weights else None


def _check_projections(
    inputs: tuple[Tensor, ...], projections: tuple[Tensor, ...], w_output: Tensor, mask: Tensor | None
) -> None:
    for name, x, weight in zip(("query", "key", "value"), inputs, projections, strict=True):
        require_tensor(name, x)
        if x.dim() != 3:
            raise ValueError(f"{name} must have shape (B, length, D), got {tuple(x.shape)}")
        require_tensor(f"w_{name}", weight)
        if weight.dim() != 3 or weight.size(1) != x.size(-1):
            raise ValueError(f"w_{name} must have shape (heads, {x.size(-1)}, Dh), got {tuple(weight.shape)}")
    heads, key_heads, value_heads = (len(weight) for weight in projections)
    if key_heads != value_heads or heads % key_heads:
        raise ValueError(
            "w_key and w_value need equally many heads, a divisor of w_query's, "
            f"got {key_heads}, {value_heads} and {heads}"
        )
    require_tensor("w_output", w_output)
    joined = heads * projections[2].size(-1)
    if w_output.dim() != 2 or w_output.size(0) != joined:
        raise ValueError(f"w_output must have shape ({joined}, D), got {tuple(w_output.shape)}")
    if mask is None:
        return
    require_tensor("mask", mask)  # here its heads; each head's part is checked where it is used
    if mask.dim() not in (2, 4) or (mask.dim() == 4 and mask.size(1) not in (1, heads)):
        raise ValueError(f"mask must be (T, S) or broadcast to (B, {heads}, T, S), got {tuple(mask.shape)}")
