"""Tables as CSV that Excel opens right, with Hangul, and that cannot run anything there."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # Excel reads the wide ones alike


def safe(value: object) -> object:
    """A text that Excel does not take for a formula."""
    if isinstance(value, str) and value.startswith(FORMULA):
        return "'" + value
    return value


def write_csv(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """UTF-8 with the mark by which Excel knows it, so that Hangul is right."""
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows([safe(value) for value in row] for row in rows)


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV from Excel, Korean Windows included; names and values without space around them.

    Raises:
        ValueError: if the file is in no encoding that Excel uses.
    """
    content = path.read_bytes()
    for encoding in ("utf-8-sig", "cp949"):
        try:
            text = content.decode(encoding)
            break
        except UnicodeDecodeError:
            continue
    else:
        raise ValueError(f"{path} must be UTF-8 or CP949: in Excel save it as 'CSV UTF-8'")
    delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
    rows = [row for row in csv.reader(text.splitlines(keepends=True), delimiter=delimiter) if any(row)]
    return [dict(zip(map(str.strip, rows[0]), map(str.strip, row), strict=False)) for row in rows[1:]]
