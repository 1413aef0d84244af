"""No sentence on both sides, and the same split on every machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import error_table

from tutorial_lib.corpora import Labelled, Pair
from tutorial_lib.splits import Split, comparable, leak_free_groups, sample, split

PAIRS = [Pair(f"source {n}", f"target {n}") for n in range(200)]


def texts(rows, column):
    return {comparable(row[column]) for row in rows}


def test_spellings_of_one_sentence_are_the_same():
    assert comparable("Go!") == comparable(" go .") == comparable("ＧＯ")
    assert comparable("가 자.") == comparable("가자!") != comparable("가지!")
    assert comparable("?!") == "?!" != comparable("!?")


def test_pairs_hang_together_by_either_side():
    rows = [Pair("a", "x"), Pair("b", "z"), Pair("a!", "y"), Pair("c", "Y."), Pair("x", "a")]
    assert leak_free_groups(rows) == [[0, 2, 3], [1], [4]]  # the last has the same texts, on other sides


def test_labels_do_not_hang_texts_together():
    assert leak_free_groups([Labelled("a", 1), Labelled("b", 1), Labelled("A", 0)]) == [[0, 2], [1]]
    assert leak_free_groups(["a", "b", "a"]) == [[0, 2], [1]]


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=10, max_size=60), st.integers(0, 5)
)
def test_no_sentence_is_on_two_sides_and_no_row_is_lost(numbers, seed):
    rows = [Pair(f"s{a}", f"t{b}") for a, b in numbers]
    parts = split(rows, valid=2, test=3, seed=seed)
    assert sorted(parts.train + parts.valid + parts.test) == sorted(rows)
    assert len(parts.valid) <= 2 and len(parts.test) <= 3
    for column in (0, 1):
        train, valid, test = (texts(part, column) for part in (parts.train, parts.valid, parts.test))
        assert not train & valid and not train & test and not valid & test


def test_sizes_are_shares_or_numbers():
    parts = split(PAIRS, valid=0.1, test=30)
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (150, 20, 30)
    assert split(PAIRS, valid=0, test=0).train == PAIRS


def test_the_order_of_the_file_does_not_decide():
    parts, turned = split(PAIRS), split(PAIRS[::-1])
    assert set(parts.test) == set(turned.test) and set(parts.valid) == set(turned.valid)
    assert parts.train == sorted(parts.train, key=PAIRS.index), "rows keep the order of the file"


def test_the_split_is_this_one_on_every_machine():
    assert split(PAIRS[:20], valid=1, test=2, seed=0).test == [
        Pair("source 7", "target 7"),
        Pair("source 13", "target 13"),
    ]


def test_another_seed_gives_another_split():
    assert set(split(PAIRS, seed=1).test) != set(split(PAIRS, seed=0).test)


@error_table(
    [
        (
            "nothing left",
            lambda: split(PAIRS[:4], valid=2, test=2),
            "leave rows to train on, got 2 and 2 of 4",
        ),
        ("a share of 1", lambda: split(PAIRS, valid=1.0), "valid must be a number of rows"),
        ("no number", lambda: split(PAIRS, valid=float("nan")), "share from 0 to below 1, got nan"),
        ("negative", lambda: split(PAIRS, test=-1), "test must be a number of rows"),
        ("a truth value", lambda: split(PAIRS, test=True), "got True"),
        ("no sample", lambda: sample(PAIRS, 0), "at least 1, got 0"),
    ]
)
def test_impossible_sizes_are_refused(wrong, says):
    with pytest.raises(ValueError) as caught:
        wrong()
    assert says in str(caught.value)


def test_a_sample_is_the_same_whatever_the_order():
    chosen = sample(PAIRS, 20)
    assert len(chosen) == 20 and chosen == sorted(chosen, key=PAIRS.index)
    assert set(sample(PAIRS[::-1], 20)) == set(chosen) != set(sample(PAIRS, 20, seed=1))
    assert sample(PAIRS, 999) == PAIRS


def test_a_checksum_tells_what_was_held_out():
    one, other = split(PAIRS), split(PAIRS, seed=1)
    assert one.held_out() == split(PAIRS).held_out() != other.held_out()
    changed = Split([], one.valid, one.test).held_out(), Split([], one.test, one.valid).held_out()
    assert changed[0] == one.held_out() != changed[1]
