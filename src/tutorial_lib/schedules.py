"""Learning rates over the course of a training run: warm-up, then a way down (chapter 10)."""

from __future__ import annotations

import math

from tutorial_lib.validation import require_choice, require_positive

SCHEDULES = ("constant", "linear", "cosine", "vaswani")


def vaswani_rate(update: int, width: int, warmup: int) -> float:
    """D^-0.5 min(update^-0.5, update warmup^-1.5)  (Vaswani et al. 2017, section 5.3, eq. 3).

    Rises in a straight line for `warmup` updates and falls with the root of the
    update's number from there on; its peak is (D warmup)^-0.5.

    Args:
        update: number of the update, counted from 1.
        width:  D, the width of the model.
        warmup: number of updates that the rise takes.

    Raises:
        ValueError: if a number is below 1.
    """
    require_positive(update=update, width=width, warmup=warmup)
    return width**-0.5 * min(update**-0.5, update * warmup**-1.5)


def learning_rate(
    update: int, updates: int, *, schedule: str = "cosine", peak: float = 1e-3, warmup: int = 0
) -> float:
    """Return the learning rate of one update.

    All schedules rise in a straight line to the peak, which the update `warmup`
    has. After it, "constant" stays there, "linear" and "cosine" (half a wave,
    Loshchilov & Hutter 2017, eq. 5) reach zero at the last update, and "vaswani" falls
    as 1 / sqrt(update): that is `vaswani_rate` with another peak.

    Args:
        update: number of the update, counted from 1.
        updates: how many there are in all.
        schedule: "constant", "linear", "cosine" or "vaswani".
        peak:   the highest rate.
        warmup: number of updates that the rise takes; 0 for none ("vaswani" then falls from the first update).

    Raises:
        ValueError: if a number or name is impossible.
    """
    require_positive(update=update, updates=updates)
    require_choice("schedule", schedule, SCHEDULES)
    if not peak > 0:
        raise ValueError(f"peak must be positive, got {peak!r}")
    if isinstance(warmup, bool) or not isinstance(warmup, int) or not 0 <= warmup <= updates:
        raise ValueError(f"warmup must be an integer from 0 to {updates} (updates), got {warmup!r}")
    if update > updates:
        raise ValueError(f"update must be at most {updates} (updates), got {update}")
    if update < warmup:
        return peak * update / warmup
    if schedule == "constant" or update == warmup:
        return peak
    if schedule == "vaswani":
        return peak * (max(warmup, 1) / update) ** 0.5
    left = (updates - update) / (updates - warmup)  # 1 at the peak, 0 at the last update
    return peak * (left if schedule == "linear" else 0.5 * (1 + math.cos(math.pi * (1 - left))))
