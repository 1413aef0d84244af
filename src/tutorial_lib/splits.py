"""Training, validation and test rows that share no sentence, the same on every machine (chapter 10)."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True)
class Split(Generic[Row]):
    """Rows to learn from, to choose by, and to report on."""

    train: list[Row]
    valid: list[Row]
    test: list[Row]

    def held_out(self) -> str:
        """Return a checksum of the rows for validation and for the test."""
        return hashlib.sha256(json.dumps([self.valid, self.test]).encode()).hexdigest()


def comparable(text: str) -> str:
    """Return what two spellings of one sentence share: letters and digits, without case, spaces and marks.

    A text without any letter or digit stays as it is.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if character.isalnum()) or folded


def leak_free_groups(rows: Sequence[Row]) -> list[list[int]]:
    """Group rows so that no sentence occurs in two groups: indices, each in one group.

    Sentences are the strings of a row (or the row, if it is a string). Pairs
    (a, x), (a, y) and (b, y) form one group: the first two share their source,
    the last two their target.
    """
    parent = list(range(len(rows)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = index = parent[parent[index]]
        return index

    first_with: dict[tuple[int, str], int] = {}
    for index, row in enumerate(rows):
        texts = [row] if isinstance(row, str) else [part for part in row if isinstance(part, str)]
        for column, text in enumerate(texts):
            other = first_with.setdefault((column, comparable(text)), index)
            parent[root(index)] = root(other)
    groups: dict[int, list[int]] = {}
    for index in range(len(rows)):
        groups.setdefault(root(index), []).append(index)
    return list(groups.values())


def split(
    rows: Sequence[Row], *, valid: float | int = 0.1, test: float | int = 0.1, seed: int = 0
) -> Split[Row]:
    """Split rows into three parts that share no sentence.

    The order of groups comes from a hash of their sentences and the seed, so
    neither Python's nor torch's random numbers take part, and the order of the
    rows in the file does not matter. A group larger than the room left in a part
    goes to training, so a part may have a few rows fewer than asked for.

    Args:
        rows:  `Pair`s, `Labelled`s or strings.
        valid: rows for validation, as a number or as a share of all (a float below 1).
        test:  rows for the test, in the same way.
        seed:  another one gives another split.

    Raises:
        ValueError: if the parts would not leave anything to learn from.
    """
    wanted = {"test": _count("test", test, len(rows)), "valid": _count("valid", valid, len(rows))}
    if sum(wanted.values()) >= len(rows):
        raise ValueError(
            f"valid and test must leave rows to train on, got {wanted['valid']} and {wanted['test']} of {len(rows)}"
        )
    parts: dict[str, list[int]] = {"test": [], "valid": [], "train": []}
    for group in sorted(leak_free_groups(rows), key=lambda group: _rank(rows, group, seed)):
        part = next((p for p in wanted if len(parts[p]) + len(group) <= wanted[p]), "train")
        parts[part] += group
    return Split(*([rows[index] for index in sorted(parts[part])] for part in ("train", "valid", "test")))


def sample(rows: Sequence[Row], size: int, *, seed: int = 0) -> list[Row]:
    """Choose rows by a hash of their text and the seed, in the file's order; all of them if there are fewer.

    Raises:
        ValueError: if the size is below 1.
    """
    if size < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    chosen = sorted(range(len(rows)), key=lambda index: _rank(rows, [index], seed))[:size]
    return [rows[index] for index in sorted(chosen)]


def require_part(name: str, wanted: float | int) -> None:
    """Expect a number of rows, or a share of them.

    Raises:
        ValueError: if it is neither.
    """
    share = isinstance(wanted, float) and 0 <= wanted < 1
    rows = isinstance(wanted, int) and not isinstance(wanted, bool) and wanted >= 0
    if not (share or rows):
        raise ValueError(f"{name} must be a number of rows, or a share from 0 to below 1, got {wanted!r}")


def _count(name: str, wanted: float | int, total: int) -> int:
    require_part(name, wanted)
    return round(wanted * total) if isinstance(wanted, float) else wanted


def _rank(rows: Sequence[Row], group: list[int], seed: int) -> tuple[bytes, str]:
    texts = (
        rows[index] if isinstance(rows[index], str) else "\0".join(map(str, rows[index])) for index in group
    )
    smallest = min(texts)
    return hashlib.sha256(f"{seed}\0{smallest}".encode()).digest(), smallest
