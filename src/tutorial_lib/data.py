"""The texts that the chapters measure on (first used in chapter 01)."""

from __future__ import annotations

from importlib import resources

BOOK_CORPUS_PARTS = ("train", "heldout")


def book_corpus(part: str) -> list[str]:
    """Return Korean sentences of this book, as they were when the corpus was frozen.

    "train" holds the landing page, the notation page and chapter 01, "heldout"
    holds chapter 05. The text is NFC and was taken from the Markdown by
    `book/corpus.py`: no code, no tables, and an x for each formula.

    Args:
        part: "train" or "heldout".

    Returns:
        One string per sentence.

    Raises:
        ValueError: if there is no such part.
    """
    if part not in BOOK_CORPUS_PARTS:
        raise ValueError(f"part must be 'train' or 'heldout', got {part!r}")
    path = resources.files("tutorial_lib") / f"assets/corpus_ko_{part}.txt"
    return path.read_text(encoding="utf-8").splitlines()
