"""Runs each student notebook as a student would: answers filled in, from top to bottom, without any error.

`python tests/students_run.py [LANGUAGE ...]`, with any Python that has the library, ipykernel and nbclient,
such as the environment of `make test-colab`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))


def filled(source) -> nbformat.NotebookNode:
    """The stored student notebook of a set, with the solutions in its answer cells."""
    path = ROOT / "exercises" / source.language / f"{source.name}.ipynb"
    book = nbformat.read(path, as_version=4)
    answers = {f"{source.name[:2]}-{e.id}-answer": e.answer for e in source.exercises if e.cells}
    for cell in book.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in answers:
            cell.source = answers[name]
    return book


def main() -> None:
    from tutorial_lib.teaching.collection import read_all

    for language in sys.argv[1:] or ["en", "ko"]:
        for source in read_all(ROOT / "exercises", language):
            book = NotebookClient(filled(source), timeout=300, kernel_name="python3").execute()
            said = [
                output.get("text", "").strip() for cell in book.cells for output in cell.get("outputs", [])
            ]
            sys.stdout.write(f"{language} {source.name}: {' | '.join(said)}\n")


if __name__ == "__main__":
    main()
