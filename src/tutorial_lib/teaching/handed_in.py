"""Finds what was handed in: one entry per student in a folder of whatever a learning platform gave.

An entry is a file or a folder of the given folder; archives are looked into.
Nothing is executed, no link is followed, and no file is read beyond a limit.
"""

from __future__ import annotations

import io
import json
import re
import stat
import threading
import unicodedata
import zipfile
from dataclasses import dataclass
from pathlib import Path

LARGEST = 20_000_000  # bytes of one notebook
# Bytes of one whose outputs (animations, long logs) make it large: it is read, one at a time, and they are
# dropped. With 100 MB reading takes 0.2 to 0.9 GB (measured; most where one emoji widens all the text).
LARGEST_WITH_OUTPUTS = 100_000_000
MOST_VALUES = 2_000_000  # in such a notebook, about 100 bytes each: 100 MB of `[],[],[]` would take 3 GB
ONE_AT_A_TIME = threading.Lock()
MOST_BYTES = 100_000_000  # read per student, archives unpacked
MOST_FILES = 500  # looked at per student
IGNORED = re.compile(r"(^|/)(\._|\.ipynb_checkpoints|__MACOSX|\.DS_Store|Thumbs\.db)")
# Moodle and Canvas append numbers and words to the student's name.
APPENDED = re.compile(r"_\d+_assignsubmission_file_?.*$|(_late)?_\d{3,}_\d{3,}_.*$", re.IGNORECASE)
LATE = re.compile(r"_late_\d{3,}_", re.IGNORECASE)  # Canvas says so in the name of the file


@dataclass(frozen=True)
class Entry:
    """What one student handed in."""

    student: str  # name for people, in composed Unicode
    files: tuple[tuple[str, bytes], ...]  # name and content of what may be a notebook
    notes: tuple[str, ...] = ()  # flags for what could not be looked at
    size: int = 0  # bytes of the largest file that was too large


def find(folder: Path) -> list[Entry]:
    """Everything that was handed in, read."""
    return [read(*one) for one in listed(folder)]


def listed(folder: Path) -> list[tuple[str, Path, tuple[str, ...]]]:
    """Student, file or folder, and flags, in the order of the names: one per file or folder, never fewer.

    Raises:
        ValueError: if `folder` is no folder.
    """
    if not folder.is_dir():
        raise ValueError(f"submissions must be a folder, got {folder}")
    found, taken = [], {}
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if IGNORED.search(path.name):
            continue
        name, notes = student_name(path), ["late"] if LATE.search(path.name) else []
        taken[name] = taken.get(name, 0) + 1
        if taken[name] > 1:
            name, notes = f"{name} ({taken[name]})", [*notes, "same-name"]
        found.append((name, path, tuple(notes)))
    return found


def read(student: str, path: Path, notes: tuple[str, ...] = ()) -> Entry:
    """The content of what one student handed in."""
    files, flags, size = collect(path)
    return Entry(student, tuple(files), (*notes, *flags), size)


def student_name(path: Path) -> str:
    """The name without suffixes of files and platforms, as Hangul syllables rather than single letters."""
    name = path.name if path.is_dir() and not path.is_symlink() else re.sub(r"(\.\w{1,5})+$", "", path.name)
    name = unicodedata.normalize("NFC", name.encode("utf-8", "replace").decode("utf-8"))
    name = "".join(char for char in APPENDED.sub("", name) if char.isprintable()).strip()
    return name or "(no name)"


def collect(path: Path) -> tuple[list[tuple[str, bytes]], list[str], int]:
    """All files below a path with their content, flags, and the size of the largest that was too large."""
    files: list[tuple[str, bytes]] = []
    notes: list[str] = []
    waiting, room, largest = [path], MOST_BYTES, 0
    while waiting and len(files) < MOST_FILES:
        item = waiting.pop(0)
        try:
            mode = item.lstat().st_mode
            if IGNORED.search(item.name):
                continue
            if stat.S_ISDIR(mode):
                waiting.extend(sorted(item.iterdir()))
            elif not stat.S_ISREG(mode):
                notes.append("link-or-device")
            elif item.stat().st_size > min(LARGEST_WITH_OUTPUTS, room):
                notes.append("too-large")
                largest = max(largest, item.stat().st_size)
            else:
                content = item.read_bytes()
                members = [(item.name, content)]
                if content[:4] == b"PK\x03\x04" and len(content) <= LARGEST:
                    members, flags, size = unpack(content, room)
                    notes += flags
                    largest = max(largest, size)
                room -= sum(len(data) for _, data in members)
                for name, data in members:
                    small = data if len(data) <= LARGEST else without_outputs(data)
                    if small is None:
                        notes.append("too-large")
                        largest = max(largest, len(data))
                        continue
                    if small is not data:
                        notes.append("outputs-dropped")
                    files.append((name, small))
        except OSError:
            notes.append("not-readable")
    if waiting:
        notes.append("too-many-files")
    return files, list(dict.fromkeys(notes)), largest


def unpack(content: bytes, room: int = MOST_BYTES) -> tuple[list[tuple[str, bytes]], list[str], int]:
    """The files of a zip archive, none read beyond the limits, whatever the archive says of their size."""
    files, notes, largest = [], [], 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist()[:MOST_FILES]:
                if member.is_dir() or IGNORED.search(member.filename):
                    continue
                most = min(LARGEST_WITH_OUTPUTS, room)
                with archive.open(member) as stream:
                    data = stream.read(most + 1)
                if len(data) > most:
                    notes.append("too-large")
                    largest = max(len(data), member.file_size)
                    break
                files.append((member.filename, data))
                room -= len(data)
    except Exception:  # a forged archive brings errors of many kinds, zlib's own among them
        notes.append("broken-archive")
    return files, notes, largest


def without_outputs(content: bytes) -> bytes | None:
    """A large notebook without outputs and pasted pictures; None if it is no notebook or still too large."""
    if sum(content.count(mark) for mark in (b"[", b"{", b",")) > MOST_VALUES:
        return None
    with ONE_AT_A_TIME:
        book = parse(content)
        cells = cells_of(book) if book else []
    small = json.dumps({"cells": cells}).encode()
    return small if cells and len(small) <= LARGEST else None


def read_notebook(content: bytes) -> dict | None:
    """A notebook from bytes in any encoding that is in use, or None."""
    return parse(content) if len(content) <= LARGEST else None


def parse(content: bytes) -> dict | None:
    if not re.search(rb"c\x00?e\x00?l\x00?l\x00?s", content):  # in UTF-16 there is a zero after each letter
        return None
    for encoding in ("utf-8-sig", "utf-16", "cp949"):
        try:
            book = json.loads(content.decode(encoding))
        except (UnicodeDecodeError, ValueError, RecursionError):
            continue
        if isinstance(book, dict) and cells_of(book):
            return book
    return None


def cells_of(book: dict) -> list[dict]:
    """The cells of a notebook, also of the old format, with their source as one text each."""
    cells = book.get("cells")
    if not isinstance(cells, list):
        sheets = book.get("worksheets")
        sheets = sheets if isinstance(sheets, list) else []
        cells = [c for s in sheets if isinstance(s, dict) for c in _listed(s.get("cells"))]
    result = []
    for cell in cells:
        if not isinstance(cell, dict) or cell.get("cell_type") not in ("code", "markdown", "raw"):
            continue
        source = cell.get("source", cell.get("input", ""))
        if isinstance(source, list):
            source = "".join(part for part in source if isinstance(part, str))
        source = source if isinstance(source, str) else ""
        source = source.replace("\r\n", "\n").replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
        metadata = cell.get("metadata")
        result.append(
            {
                "cell_type": cell["cell_type"],
                "source": source,
                "metadata": metadata if isinstance(metadata, dict) else {},
                "id": cell.get("id") if isinstance(cell.get("id"), str) else None,
            }
        )
    return result


def _listed(value) -> list:
    return value if isinstance(value, list) else []
