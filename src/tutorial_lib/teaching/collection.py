"""All exercises of the book, read from its `exercises/` folder, and what is generated from them."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import nbformat

from tutorial_lib.teaching.notebooks import Sheet, grade_name, student_notebook
from tutorial_lib.teaching.source import Exercise, ExerciseSet, read_overlay, read_set

LANGUAGES = ("en", "ko")


def find_exercises(given: str | Path | None = None) -> Path:
    """The folder `exercises/` of a copy of the book.

    Raises:
        ValueError: if there is none; installing the library alone does not bring it.
    """
    here = Path(given) if given else None
    tried = [here] if here else [Path.cwd() / "exercises", Path(__file__).resolve().parents[3] / "exercises"]
    for folder in tried:
        if (folder / "en").is_dir() and (folder / "ko").is_dir():
            return folder.resolve()
    raise ValueError(
        "the exercises are part of the book's repository: work in a copy of it, or say where they are "
        f"with --exercises; looked in {', '.join(str(folder) for folder in tried)}"
    )


def read_all(folder: Path, language: str) -> list[ExerciseSet]:
    """Every set in one language, in the order of the chapters."""
    return [read_set(path) for path in sorted((folder / language).glob("[0-9][0-9]_*.md"))]


def with_overlay(exercises: list[Exercise], folder: Path | None, chapters: list[str]) -> list[Exercise]:
    """Add a course's own hidden tests, `folder/NN_name.md`, to the exercises that they name.

    Args:
        chapters: the names that such a file can have: those of all sets.

    Raises:
        ValueError: if the folder holds no such file for these exercises, or one with another name.
    """
    if folder is None:
        return exercises
    paths = sorted(Path(folder).glob("*.md"))
    wanted = list(dict.fromkeys(exercise.set_name for exercise in exercises))
    unknown = [path.name for path in paths if path.stem not in chapters]
    if unknown or not {path.stem for path in paths} & set(wanted):
        found = ", ".join(path.name for path in paths) or "no .md file"
        found = f"found {found}" if Path(folder).is_dir() else "there is no such folder"
        raise ValueError(
            f"--private {folder}: expected files named like the chapters, here "
            f"{', '.join(f'{name}.md' for name in wanted)}; {found}"
        )
    added = {path.stem: read_overlay(path) for path in paths}
    known = {(exercise.set_name, exercise.id) for exercise in exercises}
    for set_name, tests in added.items():
        for name in tests:
            if (set_name, name) not in known and set_name in {e.set_name for e in exercises}:
                raise ValueError(f"{folder}/{set_name}.md has tests for {name!r}, which was not chosen")
    result = []
    for exercise in exercises:
        cells, messages = added.get(exercise.set_name, {}).get(exercise.id, ([], {}))
        result.append(replace(exercise, overlay=tuple(cells), messages={**exercise.messages, **messages}))
    return result


def install_address(folder: Path) -> str:
    """What a notebook installs in Colab: the book says it itself, in book/home.py."""
    path = folder.parent / "book" / "home.py"
    if not path.exists():
        from tutorial_lib import __version__

        return f"tutorial-lib=={__version__}"
    spec = importlib.util.spec_from_file_location("book_home", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.install_address()


def sheet_of(source: ExerciseSet) -> Sheet:
    """A whole set as one notebook."""
    return Sheet(source.name, source.title, source.language, source.exercises, source.setup, source.intro)


def write_all(folder: Path, assets: Path) -> list[Path]:
    """Write the student notebooks and the library's messages; returns what changed."""
    install, written = install_address(folder), []
    for language in LANGUAGES:
        sets = read_all(folder, language)
        messages = {s.name: {e.id: e.messages for e in s.exercises} for s in sets}
        texts = {
            assets / f"exercises_{language}.json": json.dumps(messages, ensure_ascii=False, indent=1) + "\n"
        }
        for source in sets:
            book = student_notebook(sheet_of(source), install)
            text = nbformat.writes(book, version=4, ensure_ascii=False).rstrip("\n") + "\n"
            texts[folder / language / f"{source.name}.ipynb"] = text
        for path, text in texts.items():
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
                written.append(path)
    return written


def names(sets: list[ExerciseSet]) -> dict[str, Exercise]:
    """Every exercise by its name in the book, such as 05-attend."""
    return {grade_name(exercise): exercise for source in sets for exercise in source.exercises}
