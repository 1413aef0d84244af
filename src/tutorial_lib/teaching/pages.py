"""The page of a set of exercises in the book: prompts, hints, visible tests, and solutions unless left out.

Hidden tests and planted wrong solutions never enter it. The page holds no
code cell, so building the book runs nothing: that the solutions pass is what
the tests of the exercises prove.
"""

from __future__ import annotations

from tutorial_lib.teaching.source import Exercise, ExerciseSet
from tutorial_lib.teaching.words import WORDS, facts


def box(title: str, body: str) -> list[str]:
    """A folded box. Longer than any fence inside it."""
    return [f":::::{{dropdown}} {title}", body, ":::::", ""]


def code(text: str) -> str:
    return f"```python\n{text}\n```"


def hints(exercise: Exercise, language: str) -> list[tuple[str, str]]:
    """Titles and texts of the hints; one alone has no number."""
    words = WORDS[language]
    if len(exercise.hints) == 1:
        return [(words["hint"], exercise.hints[0])]
    return [(words["hint_n"].format(n=n), text) for n, text in enumerate(exercise.hints, start=1)]


def page(source: ExerciseSet, colab: str, download: str, *, solutions: bool = True) -> str:
    """The page as MyST.

    Args:
        source: the exercises of a chapter in one language.
        colab: address that opens the student's notebook in Colab.
        download: address of the notebook itself, relative to the page.
        solutions: False for a course: no solution and no model answer.
    """
    words = WORDS[source.language]
    lines = [f"({source.label})=", f"# {source.title}", "", source.intro, ""]
    lines += [words["notebook"].format(colab=colab, download=download), ""]
    for exercise in source.exercises:
        lines += [f"({exercise.label})=", f"## {exercise.title}", ""]
        lines += [f"*{facts(exercise, source.language)}*", "", exercise.prompt, ""]
        if exercise.cells:
            lines += [words["start"], "", code(exercise.start), ""]
            lines += box(words["test"], code(exercise.of("test")[0].code))
        for title, text in hints(exercise, source.language):
            lines += box(title, text)
        if solutions:
            shown = [code(exercise.answer)] if exercise.cells else []
            lines += box(words["solution"], "\n\n".join([*shown, exercise.solution]))
    return "\n".join(lines).rstrip("\n") + "\n"
