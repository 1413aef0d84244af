"""Tables as CSV that Excel opens right, with Hangul, and that cannot run anything there."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # Excel reads the wide ones alike


def safe(value: object) -> object:
    """A text that Excel does not take for a formula."""
    if isinstance(value, str) and value.lstrip("'").startswith(FORMULA):
        return "'" + value
    return value


def as_typed(text: str) -> str:
    """The text that `safe` made safe."""
    return text[1:] if text.startswith("'") and safe(text[1:]) == text else text


def write_csv(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """UTF-8 with the mark by which Excel knows it, so that Hangul is right."""
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows([safe(value) for value in row] for row in rows)


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV from Excel, Korean Windows included; names and values without space around them.

    Raises:
        ValueError: if there is no such file, or it is empty or in no encoding that Excel uses.
    """
    if not path.is_file():
        raise ValueError(f"a table saved as CSV was expected, but there is no file {path}")
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
    if not rows:
        raise ValueError(f"a table saved as CSV was expected, but {path} is empty")
    rows = [[as_typed(value.strip()) for value in row] for row in rows]
    return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]
