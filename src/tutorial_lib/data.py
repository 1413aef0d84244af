"""The texts that the chapters measure on, and stored results of experiments too long for a page (chapter 01 on)."""

from __future__ import annotations

import json
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


def stored_results(name: str) -> dict:
    """Return what an experiment too long for a page gave, as it was measured for this book.

    Args:
        name: of the experiment, such as "bottleneck".

    Returns:
        "command", "date", "machine", "versions", "seconds" and "seeds" of the runs, and "results".

    Raises:
        ValueError: if there is no such experiment; the message names those that there are.
    """
    folder = resources.files("tutorial_lib") / "assets" / "results"
    names = sorted(
        path.name.removesuffix(".json") for path in folder.iterdir() if path.name.endswith(".json")
    )
    if name not in names:
        raise ValueError(f"name must be one of {names}, got {name!r}")
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
