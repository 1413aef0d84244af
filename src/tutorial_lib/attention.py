"""Scaled dot-product attention, written out and fused (built in chapter 05)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)  # all of them have an infinity


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Turn scores into weights over the allowed keys.

    Forbidden keys get exactly 0 in fp16, bf16, fp32 and fp64; a row without an
    allowed key gets zeros instead of NaN, and its gradient is zero.

    Args:
        scores: (..., T, S), in one of these four dtypes.
        mask:   bool, (T, S) or broadcastable to (..., T, S) with as many
            dimensions as the scores; True = may attend.

    Returns:
        weights (..., T, S); each row sums to 1, or to 0 if nothing is allowed.

    Raises:
        ValueError: if shapes, dtype or device of scores and mask do not fit.
    """
    if scores.dim() < 2 or scores.dtype not in FLOATS:
        raise ValueError(
            "scores must be (..., T, S) in fp16, bf16, fp32 or fp64, "
            f"got {scores.dtype} of {tuple(scores.shape)}"
        )
    if mask is None:
        return torch.softmax(scores, dim=-1)  # over the keys
    _check_mask(mask, scores.shape, "scores", scores.device)
    empty = ~mask.any(dim=-1, keepdim=True)  # (..., T, 1)
    # fp16, bf16, fp32 and fp64 all have -inf (fp16 has no -1e9); it leaves nothing to leak.
    # A row of nothing but -inf would be NaN, in the backward pass too: give it numbers, then zeros.
    scores = scores.masked_fill(~mask, float("-inf")).masked_fill(empty, 0.0)
    return torch.softmax(scores, dim=-1).masked_fill(empty, 0.0)


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout_p: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Mix the values by how well their keys match each query.

    softmax(Q Kᵀ / sqrt(Dh)) V  (Vaswani et al. 2017, §3.2.1, eq. 1)

    All inputs must be finite, forbidden ones too: 0 · inf is NaN.

    Args:
        query: (..., T, Dh)
        key:   (..., S, Dh)
        value: (..., S, Dv)
        mask:  bool, (T, S) or broadcastable to (..., T, S) with as many
            dimensions as the scores; True = may attend. A row without any
            True gives zeros.
        dropout_p: probability of dropping an attention weight; pass 0.0
            outside training.

    Returns:
        output (..., T, Dv) and weights (..., T, S); the weights are those
        before dropout.

    Raises:
        ValueError: if shapes, dtypes or devices do not fit; the message names both sides.
    """
    _check_inputs(query, key, value, mask, dropout_p)
    # Scale first: unscaled scores can pass the largest fp16 number, 65504.
    scores = (query / query.size(-1) ** 0.5) @ key.transpose(-2, -1)  # (..., T, S)
    weights = masked_softmax(scores, mask)
    mixing = F.dropout(weights, dropout_p) if dropout_p > 0 else weights
    output = mixing @ value  # (..., T, S) @ (..., S, Dv) -> (..., T, Dv)
    if mask is not None:  # rows that may attend to nothing: zeros, whatever the values are
        output = output.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    return output, weights


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout_p: float = 0.0
) -> Tensor:
    """The same output from torch's fused kernels, which need not store the (T, S) weights.

    Takes what `scaled_dot_product_attention` takes, raises what it raises and
    gives the same zeros for rows without an allowed key, on every torch
    version and device. The mask is (T, S) or has as many dimensions as the
    scores, (..., T, S).

    All inputs must be finite, forbidden ones too: 0 · inf is NaN.

    Returns:
        output (..., T, Dv)
    """
    _check_inputs(query, key, value, mask, dropout_p)
    if mask is None:
        return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout_p)
    empty = ~mask.any(dim=-1, keepdim=True)  # (..., T, 1)
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask | empty, dropout_p=dropout_p)
    return output.masked_fill(empty, 0.0)


def grouped_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout_p: float = 0.0
) -> Tensor:
    """`fused_attention` where neighbouring query heads share a key/value head (Ainslie et al. 2023, §2.2).

    Args:
        query: (B, H, T, Dh)
        key, value: (B, H_kv, S, Dh) with H_kv a divisor of H.
        mask, dropout_p: as in `fused_attention`; the mask is (T, S) or broadcasts to (B, H, T, S).

    Returns:
        output (B, H, T, Dh)
    """
    heads, kv_heads = query.size(1), key.size(1)
    if heads == kv_heads:
        return fused_attention(query, key, value, mask, dropout_p=dropout_p)
    if query.size(2) == 1 and (mask is None or tuple(mask.shape) == (len(key), 1, 1, key.size(2))):
        # While decoding: the heads that share become the queries of one head, and no key is copied.
        shape = (len(query), kv_heads, heads // kv_heads, query.size(3))
        together = query.reshape(shape)  # (B, H, 1, Dh) -> (B, H_kv, G, Dh)
        return fused_attention(together, key, value, mask, dropout_p=dropout_p).reshape(query.shape)
    key, value = (kv.repeat_interleave(heads // kv_heads, dim=1) for kv in (key, value))
    return fused_attention(query, key, value, mask, dropout_p=dropout_p)


def _check_inputs(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float) -> None:
    named = {"query": query, "key": key, "value": value}
    for name, tensor in named.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")
        if tensor.dim() < 2:
            raise ValueError(f"{name} must be at least (length, width), got {tuple(tensor.shape)}")
        if tensor.dtype not in FLOATS:
            raise ValueError(f"{name} must be fp16, bf16, fp32 or fp64, got {tensor.dtype}")
    for what in ("dtype", "device"):
        kinds = [str(getattr(tensor, what)) for tensor in named.values()]
        if len(set(kinds)) > 1:
            raise ValueError(f"query, key and value must have the same {what}, got {', '.join(kinds)}")
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        shapes = ", ".join(str(tuple(tensor.shape[:-2])) for tensor in named.values())
        raise ValueError(f"query, key and value must have the same leading dimensions, got {shapes}")
    if query.size(-1) != key.size(-1):
        raise ValueError(f"query and key must have the same width, got {query.size(-1)} and {key.size(-1)}")
    if key.size(-2) != value.size(-2):
        raise ValueError(f"key and value must have the same length, got {key.size(-2)} and {value.size(-2)}")
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p must lie between 0 and 1, got {dropout_p}")
    if mask is not None:
        _check_mask(mask, query.shape[:-1] + key.shape[-2:-1], "query", query.device)


def _check_mask(mask: Tensor, scores: torch.Size, other: str, device: torch.device) -> None:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"mask must be a boolean tensor (True = may attend), got {got}")
    # (B, T, S) would line up B with the heads of (B, H, T, S) and go unnoticed where B = H.
    fits = mask.dim() in (2, len(scores)) and all(
        m in (1, s) for m, s in zip(reversed(mask.shape), reversed(scores), strict=False)
    )
    if not fits:
        raise ValueError(
            "mask must be (T, S) or broadcast to the scores with as many dimensions: "
            f"got {tuple(mask.shape)} for scores of {tuple(scores)}"
        )
    if mask.device != device:
        raise ValueError(f"mask and {other} must be on the same device, got {mask.device} and {device}")
