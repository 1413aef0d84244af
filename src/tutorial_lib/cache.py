"""What a decoder remembers between two steps (built in chapter 10)."""

from __future__ import annotations

import torch
from torch import Tensor

from tutorial_lib.validation import require_tensor


class KeyValueCache:
    """Keys and values that one attention layer has computed, so that the next call adds only the new ones.

    Attributes:
        keys, values: (B, H_kv, S, Dh), or None while empty.
        positions:    integers (1, S) or (B, S) of the cached tokens, or None while empty.
    """

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.positions: Tensor | None = None

    @property
    def length(self) -> int:
        """S, the number of cached tokens."""
        return 0 if self.keys is None else self.keys.size(2)

    def extend(self, keys: Tensor, values: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Append new tokens and return everything that is cached now.

        Args:
            keys, values: (B, H_kv, T, Dh)
            positions: integers (1, T) or (B, T)

        Returns:
            keys and values (B, H_kv, S, Dh), and positions (1 or B, S)

        Raises:
            ValueError: if batch, heads or width differ from what is cached.
        """
        if self.keys is not None:
            for name, new, old in (("keys", keys, self.keys), ("values", values, self.values)):
                if (new.shape[:2], new.shape[3:]) != (old.shape[:2], old.shape[3:]):
                    raise ValueError(
                        f"new {name} must fit the cached ones in (B, H, Dh), "
                        f"got {tuple(new.shape)} and {tuple(old.shape)}"
                    )
            keys = torch.cat([self.keys, keys], dim=2)  # (B, H, S, Dh)
            values = torch.cat([self.values, values], dim=2)
            rows = max(self.positions.size(0), positions.size(0))
            positions = torch.cat([self.positions.expand(rows, -1), positions.expand(rows, -1)], dim=1)
        self.keys, self.values, self.positions = keys, values, positions
        return keys, values, positions

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may occur several times (beam search)."""
        require_tensor("rows", rows)
        if self.keys is None:
            return
        self.keys, self.values = self.keys[rows], self.values[rows]
        if self.positions.size(0) > 1:
            self.positions = self.positions[rows]
