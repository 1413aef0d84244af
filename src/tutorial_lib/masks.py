"""Who may attend to whom: one factory of masks for training, evaluation and decoding (built in chapter 05).

A mask is boolean, True = may attend, and broadcasts to (B, H, T, S). Two
dimensions always mean (T, S): a padding mask is (B, 1, 1, S), for (B, S) would
be taken for (T, S) where B = T. The functions named `to_...` translate a mask
for libraries with another convention.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch import Tensor


def padding_mask(
    *,
    lengths: Tensor | Sequence[int] | None = None,
    size: int | None = None,
    ids: Tensor | Sequence[Sequence[int]] | None = None,
    pad_id: int = 0,
) -> Tensor:
    """Let every query attend to real tokens only, not to padding.

    Give either the lengths or the ids:

        padding_mask(lengths=[5, 3])          # tokens first, padding after them
        padding_mask(ids=ids, pad_id=0)       # padding anywhere

    Args:
        lengths: number of real tokens of each sequence, (B,).
        size:    S, the padded length; the longest of `lengths` if left out.
        ids:     token ids, (B, S), a tensor or lists of one length.
        pad_id:  the id that stands for padding.

    Returns:
        bool (B, 1, 1, S); True = a real token.

    Raises:
        ValueError: if neither or both are given, if one of the arguments does not hold
            integers (booleans and 2.5 do not count), or if a shape or length does not fit.
    """
    if (lengths is None) == (ids is None):
        given = "neither" if ids is None else "both"
        raise ValueError(f"padding_mask needs either lengths or ids, got {given}")
    if ids is not None:
        if size is not None:
            raise ValueError(f"size goes with lengths only, got ids and size {size}")
        ids = _integers(ids, "ids", "(B, S)", dimensions=2)
        return (ids != _integer(pad_id, "pad_id"))[:, None, None, :]  # (B, S) -> (B, 1, 1, S)

    lengths = _integers(lengths, "lengths", "(B,)", dimensions=1)
    if lengths.numel() == 0:
        raise ValueError("lengths must hold at least one length, got shape (0,)")
    shortest, longest = int(lengths.min()), int(lengths.max())
    size = longest if size is None else _integer(size, "size")
    if shortest < 0 or longest > size:
        raise ValueError(f"every length must lie between 0 and size {size}, got {shortest} to {longest}")
    positions = torch.arange(size, device=lengths.device)  # (S,)
    return (positions < lengths[:, None])[:, None, None, :]  # (B, S) -> (B, 1, 1, S)


def real_tokens(ids: Tensor, padding_id: int | None) -> Tensor:
    """Return which ids (B, T) are real tokens, bool (B, T); all are if there is no padding_id."""
    return torch.ones_like(ids, dtype=torch.bool) if padding_id is None else ids != padding_id


def causal_mask(T: int, S: int | None = None, *, device: torch.device | str | None = None) -> Tensor:
    """Let each position attend to itself and to earlier positions.

    The T queries are the last T of the S positions. Training and evaluation
    have T = S; a decoder with a key/value cache has T = 1 and everything that
    it has produced so far as keys, so the one row is all True.

    Args:
        T: number of queries.
        S: number of keys; T if left out.
        device: where the mask is created.

    Returns:
        bool (T, S); True = may attend.

    Raises:
        ValueError: if T or S is negative, or there are fewer keys than queries.

    Source: Vaswani et al. 2017, §3.2.3.
    """
    S = T if S is None else S
    if T < 0 or S < T:
        raise ValueError(
            f"a causal mask needs 0 <= T <= S (the queries are the last T positions), got T={T}, S={S}"
        )
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(diagonal=S - T)


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """Allow what every one of the masks allows; None stands for 'everything is allowed'.

    Args:
        masks: None, or bool tensors that broadcast together, each (T, S) or with
            as many dimensions as the others, for example (B, 1, 1, S) and (T, S).
            A mask of two dimensions is always read as (T, S), never as (B, S).

    Returns:
        bool tensor of the common shape, (B, 1, T, S) in the example; None if all are None.

    Raises:
        ValueError: if a mask is not boolean, or dimensions, shapes or devices do not fit together.
    """
    combined = None
    for mask in masks:
        if mask is None:
            continue
        _check_mask(mask)
        if combined is None:
            combined = mask
            continue
        # (B, 1, 1, S) & (B, T, S) would line up B with the heads and give (B, B, T, S).
        if 2 not in (combined.dim(), mask.dim()) and combined.dim() != mask.dim():
            raise ValueError(
                "masks must be (T, S) or have as many dimensions as each other: "
                f"got {tuple(combined.shape)} and {tuple(mask.shape)}"
            )
        if combined.device != mask.device:
            raise ValueError(f"masks must be on one device, got {combined.device} and {mask.device}")
        try:
            combined = combined & mask
        except RuntimeError:
            raise ValueError(
                f"masks do not broadcast together: {tuple(combined.shape)} and {tuple(mask.shape)}"
            ) from None
    return combined


def to_torch_key_padding_mask(mask: Tensor) -> Tensor:
    """For `nn.MultiheadAttention(key_padding_mask=...)`: (B, 1, 1, S) -> (B, S), True = NOT allowed.

    Raises:
        ValueError: if the mask is not a padding mask.
    """
    return ~_keys_only(mask, "key_padding_mask")


def to_torch_attn_mask(mask: Tensor, num_heads: int | None = None) -> Tensor:
    """For `nn.MultiheadAttention(attn_mask=...)`: True = NOT allowed.

    Args:
        mask: (T, S), or (B, 1, T, S) or (B, H, T, S). A mask of keys alone,
            (B, 1, 1, S), goes through `to_torch_key_padding_mask` instead: the
            layer does not broadcast over the queries.
        num_heads: H of the layer; needed with four dimensions, because the layer
            wants batch and heads in one axis.

    Returns:
        bool (T, S), or (B * H, T, S).

    Raises:
        ValueError: if the shape does not fit, or num_heads is missing.
    """
    _check_mask(mask)
    if mask.dim() == 2:
        return ~mask
    if mask.dim() == 4 and mask.shape[1:3] == (1, 1):
        raise ValueError(
            "attn_mask needs a row for each query, got a mask of keys alone, "
            f"{tuple(mask.shape)}: use to_torch_key_padding_mask"
        )
    if mask.dim() != 4 or num_heads is None or mask.size(1) not in (1, num_heads):
        raise ValueError(
            "attn_mask needs (T, S), or (B, 1 or H, T, S) together with num_heads, "
            f"got {tuple(mask.shape)} with num_heads={num_heads}"
        )
    B, _, T, S = mask.shape
    return ~mask.expand(B, num_heads, T, S).reshape(B * num_heads, T, S)


def to_keras_padding_mask(mask: Tensor) -> Tensor:
    """For Keras' `query_mask`, `key_mask`, `value_mask`, `mask=[...]`: (B, 1, 1, S) -> (B, S), True = real.

    Raises:
        ValueError: if the mask is not a padding mask.
    """
    return _keys_only(mask, "padding mask")


def to_keras_attention_mask(mask: Tensor) -> Tensor:
    """For `keras.layers.MultiHeadAttention(attention_mask=...)`: (B, T, S), True = may attend.

    Args:
        mask: (T, S) or (B, 1, T, S); Keras adds the head axis itself.

    Returns:
        bool (1, T, S) or (B, T, S).

    Raises:
        ValueError: if the mask differs from head to head or has another rank.
    """
    _check_mask(mask)
    if mask.dim() == 2:
        return mask[None]
    if mask.dim() != 4 or mask.size(1) != 1:
        raise ValueError(f"Keras' attention_mask needs (T, S) or (B, 1, T, S), got {tuple(mask.shape)}")
    return mask[:, 0]  # (B, 1, T, S) -> (B, T, S)


def _check_mask(mask: Tensor) -> None:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"a mask must be a boolean tensor (True = may attend), got {got}")
    if mask.dim() < 2:
        raise ValueError(f"a mask needs at least the dimensions (T, S), got {tuple(mask.shape)}")


def _integers(values: Tensor | Sequence, name: str, shape: str, *, dimensions: int) -> Tensor:
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:  # for example rows of different lengths
        got = f"{type(values).__name__} ({error})"
        raise ValueError(f"{name} must be integers of shape {shape}, got {got}") from error
    whole = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
    if tensor.dim() != dimensions or not whole:
        got = f"{tensor.dtype} of {tuple(tensor.shape)}"
        raise ValueError(f"{name} must be integers of shape {shape}, got {got}")
    return tensor


def _integer(value: int, name: str) -> int:
    try:
        return operator.index(value)  # refuses 2.5, and 2.0
    except TypeError:
        raise ValueError(f"{name} must be an integer, got {value!r}") from None


def _keys_only(mask: Tensor, wanted: str) -> Tensor:
    _check_mask(mask)
    if mask.dim() != 4 or mask.shape[1:3] != (1, 1):
        raise ValueError(f"a {wanted} is made from (B, 1, 1, S), got {tuple(mask.shape)}")
    return mask[:, 0, 0]  # (B, 1, 1, S) -> (B, S)
