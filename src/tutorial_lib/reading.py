"""Text files as they come: rows of UTF-8 text, with an error that names file and line (chapter 10)."""

from __future__ import annotations

import codecs
import gzip
import io
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from tutorial_lib.validation import require_choice

Row = TypeVar("Row")
ON_ERROR = ("raise", "skip")
OTHER_MARKS = {  # UTF-32 first: its mark begins with that of UTF-16
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


class RowError(ValueError):
    """One row cannot be used.

    Args:
        kind: by which skipped rows are counted: "encoding", "columns", "empty", "label" or another word.
        problem: what is wrong.
    """

    def __init__(self, kind: str, problem: str):
        super().__init__(problem)
        self.kind = kind


def read_bytes(path: Path) -> bytes:
    """Read a whole file; gzip is unpacked, and so is a zip archive with one text in it.

    Raises:
        ValueError: if there is no such file, or the archive is damaged, cut off, encrypted, packed by a
            method that Python does not know, or holds not exactly one text.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from error
    packed = data[:2] == b"\x1f\x8b"
    if path.suffix == ".gz" and not packed:
        raise ValueError(f"{path}: is not gzip data")
    if not packed and data[:4] != b"PK\x03\x04":
        return data
    try:
        if packed:
            return gzip.decompress(data)
        texts = _texts(zipfile.ZipFile(io.BytesIO(data)))
    except RuntimeError as error:  # encrypted, or an unknown method
        raise ValueError(f"{path}: Python cannot unpack the archive ({error}); unpack it yourself") from error
    except Exception as error:  # flipped bytes bring errors of many kinds: zlib's, lzma's, ValueErrors
        raise ValueError(f"{path}: the archive is damaged or cut off ({error}); get it again") from error
    if len(texts) != 1:
        raise ValueError(f"{path}: must hold one text, got {list(texts)}")
    return next(iter(texts.values()))


def _texts(archive: zipfile.ZipFile) -> dict[str, bytes]:
    names = [name for name in archive.namelist() if name.endswith((".txt", ".tsv")) and "_about" not in name]
    return {name: archive.read(name) for name in names}


def read_rows(
    path: str | Path,
    parse: Callable[[str], Row | None],
    *,
    on_error: str = "raise",
    header: str | None = None,
    unpack: Callable[[Path], bytes] = read_bytes,
) -> tuple[list[Row], dict[str, int]]:
    """Read a text line by line, NFC-normalised, without byte order marks and line ends (LF or CRLF).

    Only line feeds end a line: a review may hold U+0085 or U+2028, at which
    Python's `splitlines` would cut it.

    Args:
        path:  the file; gzip and zip are unpacked.
        parse: makes a row of a line; raises `RowError` if it cannot, returns None for a line that is no row.
        on_error: "raise" stops at the first bad row, "skip" leaves bad rows out and counts them.
        header: what the first line must be; it is no row.
        unpack: reads the bytes of the text.

    Returns:
        the rows, and how many were left out, by kind.

    Raises:
        ValueError: for a bad row (the message begins with file and line), another header, a file that is
            damaged, is UTF-16 or UTF-32, ends its lines with carriage returns, or has no usable row.
    """
    require_choice("on_error", on_error, ON_ERROR)
    path = Path(path)
    data = unpack(path)
    for mark, encoding in OTHER_MARKS.items():
        if data.startswith(mark):
            raise ValueError(f"{path}: is {encoding}; save it as UTF-8")
    if b"\n" not in data and b"\r" in data.rstrip(b"\r"):
        raise ValueError(f"{path}: ends its lines with carriage returns (old Mac); save it with line feeds")
    rows: list[Row] = []
    skipped: Counter[str] = Counter()
    for number, line in _numbered(data):
        try:
            text = _decoded(line)
            if number == 1 and header is not None:
                if text != header:
                    raise ValueError(f"{path}, line 1: expected the header {header!r}, got {text[:80]!r}")
                continue
            row = parse(text)
        except RowError as error:
            if on_error == "raise":
                raise ValueError(f"{path}, line {number}: {error}") from error
            skipped[error.kind] += 1
            continue
        if row is not None:
            rows.append(row)
    if not rows:
        raise ValueError(f"{path}: has no usable row ({sum(skipped.values())} left out)")
    return rows, dict(sorted(skipped.items()))


def _numbered(data: bytes) -> Iterator[tuple[int, bytes]]:
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return ((number, line.removesuffix(b"\r")) for number, line in enumerate(lines, start=1))


def _decoded(line: bytes) -> str:
    if b"\0" in line:
        raise RowError("encoding", "holds a NUL byte: is it UTF-16, or no text at all?")
    try:  # a mark may come twice, and in the middle where files were put together
        return unicodedata.normalize("NFC", line.decode("utf-8").lstrip("\ufeff"))
    except UnicodeDecodeError as error:
        raise RowError(
            "encoding",
            f"is not UTF-8 (byte 0x{line[error.start]:02x} at position {error.start + 1}); "
            "older Korean files are CP949: iconv -f CP949 -t UTF-8",
        ) from None


def fields(line: str, count: int, *, separator: str = "\t", more: bool = False) -> list[str]:
    """Cut a line into so many fields, without white space around them.

    Args:
        count: how many are expected.
        more:  whether further fields are welcome.

    Raises:
        RowError: "columns" if there are fewer, or more where they are not welcome, or if the line is several
            rows with carriage returns between them.
    """
    if sum(part.count(separator) >= count - 1 for part in line.split("\r")) > 1:
        raise RowError("columns", "holds a carriage return as a line end (old Mac); save it with line feeds")
    cut = [part.strip() for part in line.split(separator)]
    if len(cut) < count or (len(cut) > count and not more):
        wanted = f"{count} or more" if more else str(count)
        raise RowError("columns", f"expected {wanted} columns, got {len(cut)}: {line[:60]!r}")
    return cut


def filled(name: str, value: str) -> str:
    """Return the field, or refuse one in which nothing can be seen.

    Raises:
        RowError: "empty".
    """
    if not value:
        raise RowError("empty", f"the {name} is empty")
    if not has_visible(value):
        raise RowError("empty", f"the {name} has no visible character: {value!r}")
    return value


def has_visible(text: str) -> bool:
    """Say whether a text has a character other than spaces, controls and formats (U+200B...).

    SentencePiece takes ▁ (U+2581) and U+FFFD, the mark of a lost character, for spaces; so they do not count.
    """
    return any(
        sign not in "\u2581\ufffd" and not unicodedata.category(sign).startswith(("Z", "Cc", "Cf"))
        for sign in text
    )
