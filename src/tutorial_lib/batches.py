"""Batches of ids: padded, of similar lengths, in an order that a seed and an epoch decide (chapter 10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from tutorial_lib.seeding import mixed_seed
from tutorial_lib.validation import require_positive

POOL = 50  # batches that are sorted together


def pad(sequences: Sequence[Sequence[int]], padding_id: int = 0) -> Tensor:
    """Fill up short sequences at their end: any number of lists of ids -> int64 (B, T), T the longest.

    Raises:
        ValueError: if there is no sequence.
    """
    if not len(sequences):
        raise ValueError("sequences must hold at least one, got none")
    longest = max(map(len, sequences))
    filled = [list(ids) + [padding_id] * (longest - len(ids)) for ids in sequences]
    return torch.tensor(filled, dtype=torch.long).reshape(len(filled), longest)


def epoch_batches(lengths: Sequence[int], batch_size: int, *, seed: int, epoch: int) -> list[list[int]]:
    """Cut one pass over the data into batches of rows of similar length.

    Rows are shuffled, cut into pools of 50 batches, sorted by length within a
    pool, cut into batches, and the batches shuffled: little padding, and still
    another mixture in every epoch. The last batch may be smaller.

    Args:
        lengths: of the rows.
        batch_size: rows in a batch.
        seed, epoch: decide the order; nothing else does.

    Returns:
        lists of row numbers; each row once.

    Raises:
        ValueError: if a number is impossible or there is no row.
    """
    require_positive(batch_size=batch_size)
    if not len(lengths):
        raise ValueError("lengths must hold at least one row, got none")
    generator = torch.Generator().manual_seed(mixed_seed(seed, epoch))
    order = torch.randperm(len(lengths), generator=generator).tolist()
    pool = POOL * batch_size
    batches = []
    for start in range(0, len(order), pool):
        rows = sorted(order[start : start + pool], key=lambda row: (lengths[row], row))
        batches += [rows[at : at + batch_size] for at in range(0, len(rows), batch_size)]
    return [batches[index] for index in torch.randperm(len(batches), generator=generator).tolist()]


def endless_batches(
    lengths: Sequence[int], batch_size: int, *, seed: int, done: int = 0
) -> Iterator[tuple[int, list[int]]]:
    """Give epoch after epoch of batches, from the one after the first `done` ones.

    Nothing has to be stored to go on where a run was interrupted: the number of
    batches seen says which one is next.

    Yields:
        the epoch, counted from 0, and a list of row numbers.

    Raises:
        ValueError: as `epoch_batches`.
    """
    require_positive(batch_size=batch_size)
    per_epoch = -(-len(lengths) // batch_size) if len(lengths) else 1
    epoch, skip = divmod(done, per_epoch)
    while True:
        for rows in epoch_batches(lengths, batch_size, seed=seed, epoch=epoch)[skip:]:
            yield epoch, rows
        epoch, skip = epoch + 1, 0
