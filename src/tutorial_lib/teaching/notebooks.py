"""Exercises as notebooks: the student's, and the grader's with hidden tests and checks of the checker.

A cell's id and grade id depend on the exercise and not on the language or the
assignment, so an answer can be recognised wherever it comes from.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tutorial_lib.teaching.pages import hints
from tutorial_lib.teaching.source import Exercise
from tutorial_lib.teaching.words import WORDS, facts, points

SETUP = """\
{comment}
import sys

if "google.colab" in sys.modules:
    %pip install -q "{install}"

{imports}
from tutorial_lib.teaching import open_exercises

check = open_exercises({sets}, "{language}")"""
# Before each test of the grader's version: what an answer may have overwritten, by mistake or not.
PREAMBLE = """\
import builtins as _builtins
for _name in [n for n in globals() if hasattr(_builtins, n) and not callable(globals()[n])]:
    if not _name.startswith("_"):
        del globals()[_name]
{imports}
from tutorial_lib.teaching import open_exercises as _open
check = _open({sets}, "{language}", {extra})
"""
HIDDEN_BEGIN, HIDDEN_END = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"


@dataclass(frozen=True)
class Sheet:
    """What a notebook is made from: exercises with their points, in order."""

    name: str
    title: str
    language: str
    exercises: tuple[Exercise, ...]
    imports: str
    intro: str = ""
    deadline: str = ""
    worth: dict[str, float] = field(default_factory=dict)  # grade name -> points, where a course changes them

    def points(self, exercise: Exercise) -> float:
        return self.worth.get(grade_name(exercise), exercise.points)

    @property
    def sets(self) -> list[str]:
        return list(dict.fromkeys(exercise.set_name for exercise in self.exercises))


def grade_name(exercise: Exercise) -> str:
    """The exercise's name among all of the book: number of the chapter and id, such as 05-attend."""
    return f"{exercise.set_name[:2]}-{exercise.id}"


def cell_id(*parts: str) -> str:
    return "ex-" + hashlib.sha256("|".join(parts).encode()).hexdigest()[:12]


def mark(cell: NotebookNode, name: str, **nbgrader) -> NotebookNode:
    """Give a cell its lasting id and what nbgrader reads."""
    cell.id = cell_id(name)
    cell.metadata["nbgrader"] = {
        "grade": False,
        "solution": False,
        "locked": False,
        "task": False,
        "schema_version": 3,
        "grade_id": name,
        **nbgrader,
    }
    return cell


def plain(text: str) -> str:
    """Markdown without what only the book understands."""
    text = re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text)
    if re.search(r"^:{3,}|^`{3,}\{", text, re.MULTILINE):
        raise ValueError(f"a notebook cannot show directives, got {text!r}")
    return text


def folded(title: str, text: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{plain(text)}\n\n</details>"


def share(sheet: Sheet, exercise: Exercise, own: float) -> float:
    """A cell's points, where the course gives the exercise another worth."""
    return round(own * sheet.points(exercise) / exercise.points, 4) if exercise.points else 0


def test_parts(sheet: Sheet, exercise: Exercise, cells) -> list[tuple[str, str, float]]:
    """Name, code and points of each test cell."""
    parts = []
    for number, cell in enumerate(cells, start=1):
        name = f"{grade_name(exercise)}-{cell.role}" + (f"-{number}" if number > 1 else "")
        parts.append((name, cell.code, share(sheet, exercise, cell.points)))
    return parts


def head(sheet: Sheet, install: str) -> list[NotebookNode]:
    words = WORDS[sheet.language]
    total = sum(sheet.points(exercise) for exercise in sheet.exercises)
    lines = [f"# {sheet.title}", plain(sheet.intro), words["how"]]
    if sheet.deadline:
        lines.append(words["due"].format(deadline=sheet.deadline, points=points(total, sheet.language)))
    title = new_markdown_cell("\n\n".join(line for line in lines if line))
    title.id = cell_id("title")
    setup = new_code_cell(
        SETUP.format(
            comment=words["setup"],
            install=install,
            imports=sheet.imports.strip(),
            sets=_listed(sheet.sets),
            language=sheet.language,
        )
    )
    return [title, mark(setup, "setup", locked=True)]


def body(sheet: Sheet, exercise: Exercise) -> list[NotebookNode]:
    """An exercise as a student sees it: prompt with hints, answer, visible tests."""
    words, name = WORDS[sheet.language], grade_name(exercise)
    text = [f"## {exercise.title}", f"*{facts(exercise, sheet.language, sheet.points(exercise))}*"]
    text += [plain(exercise.prompt), *(folded(*hint) for hint in hints(exercise, sheet.language))]
    prompt = mark(new_markdown_cell("\n\n".join(text)), f"{name}-prompt", locked=True)
    if not exercise.cells:
        answer = new_markdown_cell(words["answer_here"])
        worth = sheet.points(exercise)
        return [prompt, mark(answer, f"{name}-answer", solution=True, grade=True, points=worth)]
    cells = [prompt, mark(new_code_cell(exercise.start), f"{name}-answer", solution=True)]
    for part, code, worth in test_parts(sheet, exercise, exercise.of("test")):
        cells.append(mark(new_code_cell(code), part, grade=True, locked=True, points=worth))
    return cells


def student_notebook(sheet: Sheet, install: str) -> NotebookNode:
    """Prompts, hints, empty answers and visible tests; no solution, no hidden test."""
    cells = head(sheet, install)
    for exercise in sheet.exercises:
        cells += body(sheet, exercise)
    return finish(cells)


def grader_notebook(sheet: Sheet, install: str, nonce: str) -> NotebookNode:
    """The student's notebook with hidden tests, and at its end what must fail if the tests are honest.

    Those last cells run planted wrong solutions through the same tests, and one
    assertion with a number that nobody knows. Where one of them passes, the
    machinery of the tests has been tampered with.
    """
    cells, watch = head(sheet, install), []
    for exercise in sheet.exercises:
        extra = {exercise.id: exercise.messages} if exercise.overlay else {}
        preamble = PREAMBLE.format(
            imports=sheet.imports.strip(), sets=_listed(sheet.sets), language=sheet.language, extra=extra
        )
        for cell in body(sheet, exercise):
            if cell.metadata["nbgrader"]["grade_id"].endswith("-test"):
                cell.source = preamble + cell.source
            cells.append(cell)
        hidden = test_parts(sheet, exercise, [*exercise.of("hidden"), *exercise.overlay])
        for part, code, worth in hidden:
            cells.append(hide(preamble + code, part, worth))
        if exercise.cells:
            wrong = exercise.of("wrong")[0]
            tests = [cell.code for cell in (*exercise.of("test"), *exercise.of("hidden"))]
            name = f"zz-{grade_name(exercise)}-{wrong.expect}"
            watch.append(hide(preamble + "\n".join([wrong.code, *tests]), name, 0))
    watch.append(hide(f"assert False, {nonce!r}", "zz-canary", 0))
    return finish([*cells, *watch])


def hide(code: str, name: str, worth: float) -> NotebookNode:
    source = f"# {name}\n{HIDDEN_BEGIN}\n{code}\n{HIDDEN_END}"
    return mark(new_code_cell(source), name, grade=True, locked=True, points=worth)


def finish(cells: list[NotebookNode]) -> NotebookNode:
    book = new_notebook(
        cells=cells,
        metadata={
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
    )
    nbformat.validate(book)
    return book


def _listed(names: list[str]) -> str:
    return f'"{names[0]}"' if len(names) == 1 else "[" + ", ".join(f'"{name}"' for name in names) + "]"
