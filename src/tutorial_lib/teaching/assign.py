"""Exercises into an assignment: what students get, and what the grader keeps."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

import nbformat

from tutorial_lib.teaching import collection
from tutorial_lib.teaching.notebooks import Sheet, grade_name, grader_notebook, student_notebook
from tutorial_lib.teaching.roster import read_time
from tutorial_lib.teaching.source import KINDS, Exercise, is_worth


@dataclass(frozen=True)
class Wanted:
    """What an instructor asks for; empty means everything."""

    names: tuple[str, ...] = ()  # such as 05-attend
    chapters: tuple[str, ...] = ()  # such as 05
    kinds: tuple[str, ...] = ()
    difficulties: tuple[int, ...] = ()
    minutes: int = 0  # in all: the chapters take turns, as long as something fits


def choose(exercises: dict[str, Exercise], wanted: Wanted) -> list[Exercise]:
    """The exercises that fit, in the order of the book (of `names`, where names are given).

    Raises:
        ValueError: if a name, a chapter, a kind or a difficulty is unknown, or nothing fits.
    """
    chapters = dict.fromkeys(exercise.set_name[:2] for exercise in exercises.values())
    for what, asked, known in (
        ("exercise", wanted.names, exercises),
        ("chapter with exercises", wanted.chapters, chapters),
        ("kind", wanted.kinds, KINDS),
        ("difficulty", wanted.difficulties, (1, 2, 3)),
    ):
        if unknown := [str(one) for one in asked if one not in known]:
            raise ValueError(
                f"no {what} is called {', '.join(unknown)}; there are {', '.join(map(str, known))}"
            )
    chosen = [exercises[name] for name in wanted.names] or [
        exercise
        for exercise in exercises.values()
        if (not wanted.chapters or exercise.set_name[:2] in wanted.chapters)
        and (not wanted.kinds or exercise.kind in wanted.kinds)
        and (not wanted.difficulties or exercise.difficulty in wanted.difficulties)
    ]
    if wanted.minutes:
        chosen = fitting(chosen, wanted.minutes)
    if not chosen:
        raise ValueError("no exercise fits: loosen chapters, kinds, difficulty or minutes")
    return chosen


def fitting(exercises: list[Exercise], minutes: int) -> list[Exercise]:
    """Those that fit into the time, in their order; the chapters take turns, so that each has its share."""
    waiting: dict[str, list[Exercise]] = {}
    for exercise in exercises:
        waiting.setdefault(exercise.set_name, []).append(exercise)
    taken, used = [], 0
    while any(waiting.values()):
        for own in waiting.values():
            if own and used + own[0].minutes <= minutes:
                taken.append(own[0])
                used += own[0].minutes
            del own[:1]
    return [exercise for exercise in exercises if exercise in taken]


def build(
    target: Path,
    exercises_folder: Path,
    wanted: Wanted,
    *,
    language: str,
    title: str,
    deadline: str = "",
    worth: dict[str, float] | None = None,
    private: Path | None = None,
) -> dict:
    """Write an assignment into the folder `target`, whose name is the assignment's name.

    `student/` holds the notebook to give out. `grader/` is a course of nbgrader
    with hidden tests and solutions of nobody's business: keep it to yourself.

    Raises:
        ValueError: if the name does not fit, the folder holds an assignment, a choice does not exist, or
            points or the deadline cannot be read. Nothing has been written then.
    """
    name = target.name
    if not re.fullmatch(r"[A-Za-z][\w-]*", name, re.ASCII):
        raise ValueError(
            f"the assignment's name must be Latin letters, digits, - and _, a letter first, got {name!r}"
        )
    if (target / "assignment.json").exists():
        raise ValueError(f"{target} holds an assignment already: choose another name, or remove it")
    if deadline and read_time(deadline) is None:
        raise ValueError(f"the deadline must be like 2026-09-30 23:59, got {deadline!r}")
    if unfit := {name: value for name, value in (worth or {}).items() if not is_worth(value)}:
        raise ValueError(f"points must be numbers from 0 up, got {unfit}")
    sets = collection.read_all(exercises_folder, language)
    chosen = choose(collection.names(sets), wanted)
    chosen = collection.with_overlay(chosen, private, [s.name for s in sets])
    unknown = set(worth or {}) - {grade_name(exercise) for exercise in chosen}
    if unknown:
        raise ValueError(f"points are given for {', '.join(sorted(unknown))}, which was not chosen")
    used = [s for s in sets if s.name in {e.set_name for e in chosen}]
    imports = "\n".join(dict.fromkeys(line for s in used for line in s.setup.split("\n") if line))
    sheet = Sheet(name, title, language, tuple(chosen), imports, "", deadline, dict(worth or {}))
    install = collection.install_address(exercises_folder)
    nonce = secrets.token_hex(12)
    write(target / "student" / f"{name}.ipynb", student_notebook(sheet, install))
    write(target / "grader" / "source" / name / f"{name}.ipynb", grader_notebook(sheet, install, nonce))
    described = {
        "name": name,
        "title": title,
        "language": language,
        "deadline": deadline,
        "nonce": nonce,
        "exercises": [describe(sheet, exercise) for exercise in chosen],
    }
    from tutorial_lib.teaching.engine import register

    register(target / "grader", name)
    text = json.dumps(described, ensure_ascii=False, indent=1)
    (target / "assignment.json").write_text(text, encoding="utf-8")
    return described


def describe(sheet: Sheet, exercise: Exercise) -> dict:
    return {
        "name": grade_name(exercise),
        "title": exercise.title,
        "kind": exercise.kind,
        "minutes": exercise.minutes,
        "points": sheet.points(exercise),
        "manual": not exercise.cells,
        "choices": exercise.choices,
        "rubric": exercise.rubric,
        "model": exercise.solution if not exercise.cells else "",
        "messages": exercise.messages,
    }


def write(path: Path, book) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(book, version=4, ensure_ascii=False) + "\n", encoding="utf-8")


def load(target: Path) -> dict:
    """The description of an assignment.

    Raises:
        ValueError: if the folder holds none.
    """
    path = target / "assignment.json"
    if not path.exists():
        raise ValueError(f"{target} holds no assignment: make one with tutorial-lib teach assign {target}")
    return json.loads(path.read_text(encoding="utf-8"))
