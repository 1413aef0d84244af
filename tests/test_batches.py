"""Each row once an epoch, rows of similar length together, and an order that the seed alone decides."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import error_table

from tutorial_lib.batches import endless_batches, epoch_batches, pad


def test_padding_goes_to_the_end():
    assert pad([[5, 6], [7], []], 0).tolist() == [[5, 6], [7, 0], [0, 0]]
    assert pad([[1]], 9).dtype == torch.long
    assert pad([(5,), (6, 7)], 1).tolist() == [[5, 1], [6, 7]]
    assert pad([[], []]).shape == (2, 0)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=700),
    st.integers(1, 9),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_an_epoch_has_every_row_once(lengths, size, seed, epoch):
    batches = epoch_batches(lengths, size, seed=seed, epoch=epoch)
    assert sorted(itertools.chain(*batches)) == list(range(len(lengths)))
    assert len(batches) == -(-len(lengths) // size)
    assert sum(len(batch) < size for batch in batches) <= 1


LENGTHS = [(n * 7919) % 97 + 1 for n in range(3000)]


def test_rows_of_a_batch_have_similar_lengths():
    padding = [max(LENGTHS[r] for r in b) * len(b) for b in epoch_batches(LENGTHS, 20, seed=0, epoch=0)]
    assert sum(padding) < 1.04 * sum(LENGTHS)


def test_batches_come_neither_sorted_nor_always_mixed_alike():
    first, second = (epoch_batches(LENGTHS, 20, seed=0, epoch=epoch) for epoch in (0, 1))
    one_pool = epoch_batches(LENGTHS[:900], 20, seed=0, epoch=0)
    longest = [max(LENGTHS[row] for row in batch) for batch in one_pool]
    assert longest != sorted(longest)
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in second}


def test_seed_and_epoch_decide_the_order_and_nothing_else_does():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    once = epoch_batches(LENGTHS, 20, seed=3, epoch=4)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert epoch_batches(LENGTHS, 20, seed=3, epoch=4) == once
    assert epoch_batches(LENGTHS, 20, seed=4, epoch=3) != once
    assert epoch_batches(LENGTHS, 20, seed=4, epoch=4) != once


@pytest.mark.parametrize("done", [0, 1, 6, 7, 8, 20])
def test_an_interrupted_stream_goes_on_where_it_was(done):
    lengths = LENGTHS[:65]  # 7 batches of 10
    whole = list(itertools.islice(endless_batches(lengths, 10, seed=5), 30))
    assert list(itertools.islice(endless_batches(lengths, 10, seed=5, done=done), 30 - done)) == whole[done:]
    assert [epoch for epoch, _ in whole[:15]] == [0] * 7 + [1] * 7 + [2]


@error_table(
    [
        ("no sequence", lambda: pad([]), "at least one, got none"),
        ("no row", lambda: epoch_batches([], 2, seed=0, epoch=0), "at least one row, got none"),
        ("no batch", lambda: epoch_batches([1], 0, seed=0, epoch=0), "batch_size"),
        (
            "endless, no batch",
            lambda: next(endless_batches([1, 2], 0, seed=0)),
            "batch_size must be an integer of",
        ),
        ("endless, no row", lambda: next(endless_batches([], 2, seed=0)), "at least one row, got none"),
    ]
)
def test_impossible_numbers_are_refused(wrong, says):
    with pytest.raises(ValueError) as caught:
        wrong()
    assert says in str(caught.value)
