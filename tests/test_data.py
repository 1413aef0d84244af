"""The texts that the chapters measure on."""

import unicodedata

import pytest

from tutorial_lib import data

PARTS = ("train", "heldout")


@pytest.mark.parametrize("part", PARTS)
def test_the_corpus_is_composed_korean_one_sentence_a_line(part):
    sentences = data.book_corpus(part)
    assert len(sentences) > 100
    for sentence in sentences:
        assert sentence == unicodedata.normalize("NFC", sentence) == " ".join(sentence.split())
        assert any("가" <= character <= "힣" for character in sentence)


@pytest.mark.parametrize("part", PARTS)
def test_the_corpus_carries_no_markup(part):
    text = "\n".join(data.book_corpus(part))
    for mark in ("`", "$", "](", "**", ":::", "|", "#", "{", "\\", "http"):
        assert mark not in text, mark


def test_the_two_parts_share_no_sentence_and_hold_thirty_kilobytes():
    train, heldout = (data.book_corpus(part) for part in PARTS)
    assert not set(train) & set(heldout)
    assert len("\n".join(train + heldout).encode("utf-8")) >= 30_000


def test_another_part_is_refused_by_name():
    with pytest.raises(ValueError, match="'train' or 'heldout', got 'test'"):
        data.book_corpus("test")
