"""Finds what was handed in: one entry per student in a folder of whatever a learning platform gave.

An entry is a file or a folder of the given folder; archives are looked into.
Nothing is executed, no link is followed, and no file is read beyond a limit.
"""

from __future__ import annotations

import io
import json
import re
import stat
import unicodedata
import zipfile
from dataclasses import dataclass
from pathlib import Path

LARGEST = 20_000_000  # bytes of one notebook
MOST_BYTES = 100_000_000  # read per student, archives unpacked
MOST_FILES = 500  # looked at per student
IGNORED = re.compile(r"(^|/)(\._|\.ipynb_checkpoints|__MACOSX|\.DS_Store|Thumbs\.db)")
# Moodle and Canvas append numbers and words to the student's name.
APPENDED = re.compile(r"_\d+_assignsubmission_file_?.*$|(_late)?_\d{3,}_\d{3,}_.*$|_\d{4,}$", re.IGNORECASE)
LATE = re.compile(r"_late_\d{3,}_", re.IGNORECASE)  # Canvas says so in the name of the file


@dataclass(frozen=True)
class Entry:
    """What one student handed in."""

    student: str  # name for people, in composed Unicode
    files: tuple[tuple[str, bytes], ...]  # name and content of what may be a notebook
    notes: tuple[str, ...] = ()  # flags for what could not be looked at


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
    files, flags = collect(path)
    return Entry(student, tuple(files), (*notes, *flags))


def student_name(path: Path) -> str:
    """The name without suffixes of files and platforms, as Hangul syllables rather than single letters."""
    name = path.name if path.is_dir() and not path.is_symlink() else re.sub(r"(\.\w{1,5})+$", "", path.name)
    name = unicodedata.normalize("NFC", name.encode("utf-8", "replace").decode("utf-8"))
    name = "".join(char for char in APPENDED.sub("", name) if char.isprintable()).strip()
    return name or "(no name)"


def collect(path: Path) -> tuple[list[tuple[str, bytes]], list[str]]:
    """All files below a path with their content, and flags."""
    files: list[tuple[str, bytes]] = []
    notes: list[str] = []
    waiting, room = [path], MOST_BYTES
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
            elif item.stat().st_size > min(LARGEST, room):
                notes.append("too-large")
            else:
                content = item.read_bytes()
                inner, flags = [(item.name, content)], []
                if content[:4] == b"PK\x03\x04":
                    inner, flags = unpack(content, room)
                files += inner
                notes += flags
                room -= sum(len(data) for _, data in inner)
        except OSError:
            notes.append("not-readable")
    if waiting:
        notes.append("too-many-files")
    return files, list(dict.fromkeys(notes))


def unpack(content: bytes, room: int = MOST_BYTES) -> tuple[list[tuple[str, bytes]], list[str]]:
    """The files of a zip archive, none read beyond the limits, whatever the archive says of their size."""
    files, notes = [], []
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist()[:MOST_FILES]:
                if member.is_dir() or IGNORED.search(member.filename):
                    continue
                most = min(LARGEST, room)
                with archive.open(member) as stream:
                    data = stream.read(most + 1)
                if len(data) > most:
                    notes.append("too-large")
                    break
                files.append((member.filename, data))
                room -= len(data)
    except Exception:  # a forged archive brings errors of many kinds, zlib's own among them
        notes.append("broken-archive")
    return files, notes


def read_notebook(content: bytes) -> dict | None:
    """A notebook from bytes in any encoding that is in use, or None."""
    if len(content) > LARGEST or b"cells" not in content.replace(b"\x00", b""):
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
