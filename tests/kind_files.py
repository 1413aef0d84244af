"""How the files of bad submissions are made: a workshop with the solved notebook, and tools to spoil it."""

from __future__ import annotations

import copy
import json
import os
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("05-attend", "05-table", "05-importance")
MARKER = "/var/tmp/written-by-a-submission"
LEFT = "left-running-4711"  # appears in the command line of a process that a submission leaves behind


@dataclass(frozen=True)
class Kind:
    """One kind: how the file is made, and what grading it must give."""

    name: str
    make: Callable  # (Workshop, Path of the folder) -> None
    points: tuple[float, float] | None = (6, 2)  # attend, table; None: only the flag counts
    flags: tuple[str, ...] = ()
    status: str = "ok"
    runs: bool = True  # False: the file is odd, but what is in it is the right solution


class Workshop:
    """The student's notebook of the assignment, and the tools to spoil it."""

    def __init__(self, notebook: dict, exercises: dict):
        self.notebook, self.exercises = notebook, exercises
        self.good = {
            "05-attend": exercises["05-attend"].answer,
            "05-table": exercises["05-table"].answer,
            "05-importance": "값 벡터의 길이도 중요합니다.",
        }

    def book(self, own_cell: str = "", at: int = 2, **answers: str) -> dict:
        """The notebook, solved but for `answers` (attend=..., table=...), with a cell of the student's own."""
        book = copy.deepcopy(self.notebook)
        texts = {**self.good, **{f"05-{name}": text for name, text in answers.items()}}
        for cell in book["cells"]:
            name = grade_id(cell)
            if name.endswith("-answer"):
                cell["source"] = texts[name.removesuffix("-answer")]
        if own_cell:
            book["cells"].insert(at, code(own_cell))
        return book

    @property
    def wrong(self) -> str:
        return self.exercises["05-attend"].of("wrong")[0].code


def grade_id(cell: dict) -> str:
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


def code(source: str) -> dict:
    empty = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    return {**empty, "id": "own-cell", "source": source}


def plain(name: str, own_cell: str = "", points=(6, 2), flags=(), status="ok", at=2, **answers) -> Kind:
    """A kind that differs from the right solution in the text of cells only."""

    def make(shop: Workshop, folder: Path) -> None:
        texts = {key: shop.wrong if text == "WRONG" else text for key, text in answers.items()}
        (folder / f"{name}.ipynb").write_text(json.dumps(shop.book(own_cell, at, **texts)), encoding="utf-8")

    return Kind(name, make, points, tuple(flags), status)


def changed(name: str, change: Callable, points=(6, 2), flags=(), status="ok", runs=False, **answers) -> Kind:
    """A kind whose notebook is changed as a whole."""

    def make(shop: Workshop, folder: Path) -> None:
        texts = {key: shop.wrong if text == "WRONG" else text for key, text in answers.items()}
        book = shop.book(**texts)
        book = change(book) or book
        (folder / f"{name}.ipynb").write_text(json.dumps(book), encoding="utf-8")

    return Kind(name, make, points, tuple(flags), status, runs)


def file(name: str, write: Callable, **expected) -> Kind:
    """A kind that is about files rather than cells."""
    return Kind(name, write, runs=False, **expected)


def each_cell(action: Callable) -> Callable:
    def change(book: dict) -> None:
        for cell in book["cells"]:
            action(cell)

    return change


def tests_of(book: dict) -> list[dict]:
    return [cell for cell in book["cells"] if grade_id(cell).endswith("-test")]


def without_tests(book: dict) -> None:
    gone = tests_of(book)
    book["cells"] = [cell for cell in book["cells"] if cell not in gone]


def honest_tests(book: dict) -> None:
    for cell in tests_of(book):
        cell["source"] = "assert True"


def twice(suffix: str, old: str = "") -> Callable:
    def change(book: dict) -> None:
        for number, cell in enumerate(book["cells"]):
            if grade_id(cell) == f"05-attend-{suffix}":
                book["cells"].insert(number, {**copy.deepcopy(cell), **({"source": old} if old else {})})
                return

    return change


def colab(minor: int) -> Callable:
    def change(book: dict) -> None:
        book["nbformat_minor"] = minor
        book["metadata"] |= {
            "accelerator": "GPU",
            "colab": {"gpuType": "T4"},
            "widgets": {"x": {"state": {}}},
        }
        for cell in book["cells"]:
            cell["metadata"]["id"] = cell.pop("id")
            if minor == 5:
                cell["id"] = cell["metadata"]["id"]
        badge = {"cell_type": "markdown", "metadata": {}, "source": '<img src="colab-badge.svg">'}
        book["cells"].insert(0, badge)

    return change


def stripped(book: dict) -> None:
    for cell in book["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    book["metadata"] = {}


def old_format(book: dict) -> dict:
    cells = []
    for cell in book["cells"]:
        text = cell.pop("source")
        cells.append({**cell, ("input" if cell["cell_type"] == "code" else "source"): text.splitlines(True)})
    return {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells}]}


def in_one_cell(book: dict) -> None:
    answers = [
        cell for cell in book["cells"] if grade_id(cell).endswith("-answer") and cell["cell_type"] == "code"
    ]
    book["cells"].insert(2, code("\n\n".join(cell["source"] for cell in answers)))
    book["cells"] = [cell for cell in book["cells"] if cell not in answers]


def to_markdown(book: dict) -> None:
    for cell in book["cells"]:
        if grade_id(cell) == "05-attend-answer":
            cell["cell_type"] = "markdown"
            cell.pop("outputs", None)


def odd_characters(book: dict) -> None:
    for cell in book["cells"]:
        if grade_id(cell) == "05-attend-answer":
            cell["source"] += "\n# \ud83d lone surrogate, \x00 NUL, \r\n# and a Windows line end"


def raw(name: str, content: bytes, **expected) -> Kind:
    return file(name, lambda shop, folder: (folder / f"{name}.ipynb").write_bytes(content), **expected)


def encoded(name: str, encoding: str) -> Kind:
    def write(shop: Workshop, folder: Path) -> None:
        text = json.dumps(shop.book(), ensure_ascii=False).replace("✗", "").replace("—", "-")
        (folder / f"{name}.ipynb").write_bytes(text.encode(encoding, "ignore"))

    return file(name, write)


def zipped(name: str, members: Callable, **expected) -> Kind:
    def write(shop: Workshop, folder: Path) -> None:
        with zipfile.ZipFile(folder / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in members(shop).items():
                archive.writestr(member, content)

    return file(name, write, **expected)


def in_folder(name: str, files: Callable, **expected) -> Kind:
    def write(shop: Workshop, folder: Path) -> None:
        for path, content in files(shop).items():
            (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / path).write_bytes(content)

    return file(name, write, **expected)


def solved(shop: Workshop) -> bytes:
    return json.dumps(shop.book()).encode()


def english(shop: Workshop, folder: Path) -> None:
    book = shop.book()
    for cell in book["cells"]:
        if cell["cell_type"] == "markdown" and not grade_id(cell).endswith("-answer"):
            cell["source"] = "## The same in English"
    (folder / "notebook of the other language.ipynb").write_text(json.dumps(book))


def link(shop: Workshop, folder: Path) -> None:
    os.symlink("/etc/passwd", folder / "link to a file of the machine.ipynb")


def named(shown: str) -> Callable:
    def write(shop: Workshop, folder: Path) -> None:
        (folder / f"{shown}.ipynb").write_bytes(solved(shop))

    return write


class Bomb:
    """Runs when it is unpickled."""

    def __reduce__(self):
        return os.system, (f"touch {MARKER}-pickle",)


def with_pickle(shop: Workshop) -> dict[str, bytes]:
    import pickle

    return {"hw1.ipynb": solved(shop), "model.pkl": pickle.dumps(Bomb())}


def big_zip(shop: Workshop) -> dict[str, bytes]:
    return {"hw1.ipynb": b" " * 30_000_000}


def nested_json() -> bytes:
    return b'{"cells": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def write_all(shop: Workshop, folder: Path, kinds: list[Kind]) -> dict[str, Kind]:
    """Make the files; which student belongs to which kind."""
    sys.path.insert(0, str(ROOT / "src"))
    from tutorial_lib.teaching.handed_in import student_name

    folder.mkdir(parents=True, exist_ok=True)
    owners = {}
    for kind in kinds:
        before = set(folder.iterdir())
        kind.make(shop, folder)
        (made,) = set(folder.iterdir()) - before
        owners[student_name(made)] = kind
    return owners


def prepare(place: Path):
    """An assignment in a folder, and the workshop that spoils its notebook."""
    sys.path.insert(0, str(ROOT / "src"))
    from tutorial_lib.teaching import assign, collection

    target = place / "hw1"
    if not target.exists():
        assign.build(target, ROOT / "exercises", assign.Wanted(names=NAMES), language="ko", title="과제 1")
    notebook = json.loads((target / "student" / "hw1.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return target, Workshop(notebook, collection.names(collection.read_all(ROOT / "exercises", "ko")))


def leftovers() -> list[str]:
    """What a submission left on this machine: files, and processes that still run."""
    found = [str(path) for path in Path(MARKER).parent.glob(Path(MARKER).name + "*")]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if LEFT in path.read_text(errors="replace") and int(path.parent.name) != os.getpid():
                found.append(f"process {path.parent.name}")
        except OSError:
            continue
    return found
