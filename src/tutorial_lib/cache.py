"""What a decoder remembers between two steps (built in chapter 10)."""

from __future__ import annotations

import torch
from torch import Tensor

from tutorial_lib.validation import require_tensor

ROOM = 32  # tokens that fit in before the buffers grow again


class KeyValueCache:
    """Keys and values that one attention layer has computed, so that the next call adds only the new ones.

    Without gradients the new ones are written into buffers with room to spare,
    instead of copying everything at every step. A cache that is to go on in two
    ways needs `select` with its rows twice or, without gradients, `copy.deepcopy`.

    Attributes:
        keys, values: (B, H_kv, S, Dh), or None while empty.
        positions:    integers (1, S) or (B, S) of the cached tokens, or None while empty.
    """

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.positions: Tensor | None = None
        self._buffers: list[Tensor] | None = None  # keys and values are views of their beginning

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
            ValueError: if the three do not fit each other, or batch, heads, width, dtype or device
                differ from what is cached.
        """
        if keys.shape[:3] != values.shape[:3] or positions.dim() != 2 or positions.size(1) != keys.size(2):
            raise ValueError(
                "keys, values and positions must have the same batch, heads and T, "
                f"got {tuple(keys.shape)}, {tuple(values.shape)} and {tuple(positions.shape)}"
            )
        if self.keys is not None:
            for name, new, old in (("keys", keys, self.keys), ("values", values, self.values)):
                if (new.shape[:2], new.shape[3:]) != (old.shape[:2], old.shape[3:]):
                    raise ValueError(
                        f"new {name} must fit the cached ones in (B, H, Dh), "
                        f"got {tuple(new.shape)} and {tuple(old.shape)}"
                    )
                if (new.dtype, new.device) != (old.dtype, old.device):
                    raise ValueError(
                        f"new {name} must have the cached ones' dtype and device, got {new.dtype} on "
                        f"{new.device} and {old.dtype} on {old.device}"
                    )
            keys, values = self._append(keys, values)
            if positions.size(0) != self.positions.size(0):
                rows = max(self.positions.size(0), positions.size(0))
                self.positions, positions = self.positions.expand(rows, -1), positions.expand(rows, -1)
            positions = torch.cat([self.positions, positions], dim=1)
        self.keys, self.values, self.positions = keys, values, positions
        return keys, values, positions

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may occur several times (beam search)."""
        require_tensor("rows", rows)
        if self.keys is None:
            return
        if self._buffers is None:
            self.keys, self.values = self.keys[rows], self.values[rows]
        else:  # the room goes along
            self._buffers = [buffer[rows] for buffer in self._buffers]
            self.keys, self.values = (buffer[:, :, : self.length] for buffer in self._buffers)
        if self.positions.size(0) > 1:
            self.positions = self.positions[rows]

    def _append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cached keys and values with the new ones after them, each (B, H_kv, S, Dh)."""
        olds, news = (self.keys, self.values), (keys, values)
        if torch.is_grad_enabled():  # the backward pass needs the old ones untouched
            self._buffers = None
            return tuple(torch.cat([old, new], dim=2) for old, new in zip(olds, news, strict=True))
        start, end = self.length, self.length + keys.size(2)
        if self._buffers is None or self._buffers[0].size(2) < end:
            self._buffers = [old.new_empty(*old.shape[:2], end + ROOM, old.size(3)) for old in olds]
            for buffer, old in zip(self._buffers, olds, strict=True):
                buffer[:, :, :start] = old
        for buffer, new in zip(self._buffers, news, strict=True):
            buffer[:, :, start:end] = new
        return tuple(buffer[:, :, :end] for buffer in self._buffers)
