"""Checks of what a caller passes in: every message names what was expected and what was received."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def require_tensor(name: str, value: object) -> Tensor:
    """Return the value if it is a tensor; otherwise say what it is."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} must be a torch.Tensor, got {type(value).__name__}")
    return value


def require_vectors(name: str, value: Tensor, width: int, *, rank: int = 3) -> None:
    """Expect floating point vectors of one width: (B, T, width) for rank 3."""
    require_tensor(name, value)
    wanted = {2: "(B, {})", 3: "(B, T, {})"}[rank].format(width)
    if value.dim() != rank or value.size(-1) != width:
        raise ValueError(f"{name} must have shape {wanted}, got {tuple(value.shape)}")
    if not value.is_floating_point():
        raise ValueError(f"{name} must be floating point, got {value.dtype}")


def require_like_parameters(name: str, value: Tensor, module: nn.Module) -> None:
    """Expect the device of the module's parameters, and their dtype unless autocast chooses it."""
    parameter = next(module.parameters())
    if value.device != parameter.device:
        raise ValueError(f"{name} must be on the layer's device {parameter.device}, got {value.device}")
    if torch.is_autocast_enabled(value.device.type) or not value.is_floating_point():
        return
    if value.dtype != parameter.dtype:
        raise ValueError(f"{name} must have the layer's dtype {parameter.dtype}, got {value.dtype}")


def require_ids(name: str, ids: Tensor, vocabulary: int, *, like: nn.Module | None = None) -> None:
    """Expect integer ids (B, T) between 0 and vocabulary - 1, on the device of the module `like`."""
    require_tensor(name, ids)
    if ids.dim() != 2:
        raise ValueError(f"{name} must have shape (B, T), got {tuple(ids.shape)}")
    if ids.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"{name} must be int64 or int32 ids, got {ids.dtype}")
    if like is not None:
        require_like_parameters(name, ids, like)
    if ids.numel():
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= vocabulary:
            raise ValueError(f"{name} must lie between 0 and {vocabulary - 1}, got {low} to {high}")


def require_same_batch(name: str, value: Tensor, other_name: str, other: Tensor) -> None:
    """Expect the same first dimension B."""
    if value.size(0) != other.size(0):
        raise ValueError(
            f"{name} and {other_name} must have the same batch size, got {value.size(0)} and {other.size(0)}"
        )


def require_positive(**sizes: int) -> None:
    """Expect integers of at least 1."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {size!r}")


def require_probability(name: str, value: float) -> None:
    """Expect a number from 0 up to, but without, 1."""
    if not 0.0 <= value < 1.0:
        raise ValueError(f"{name} must lie in [0, 1), got {value!r}")


def require_choice(name: str, value: object, choices: tuple) -> None:
    """Expect one of a few named possibilities."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
