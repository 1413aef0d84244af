"""Random numbers that a seed decides and that leave the caller's own alone (chapter 10)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def mixed_seed(*numbers: int) -> int:
    """Make one seed of several numbers; (1, 0) and (0, 1) give different ones.

    Raises:
        ValueError: if a number is not a whole one.
    """
    seed = 0
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(f"a seed must be a whole number, got {number!r}")
        seed = (seed * 0x9E3779B97F4A7C15 + number + 1) % 2**63  # an odd multiplier: no two pairs nearby meet
    return seed


@contextmanager
def seeded(*numbers: int) -> Iterator[None]:
    """Seed torch inside the block; afterwards its random numbers go on as if nothing had been."""
    seed = mixed_seed(*numbers)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
