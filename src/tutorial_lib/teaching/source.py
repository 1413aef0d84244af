"""Reads `exercises/<language>/NN_name.md`, the one source of an exercise's page, notebook and grader's version.

The format is described in exercises/README.md. A file is a MyST page; what only
graders and authors may see (roles `hidden` and `wrong`) stands in it beside
what everybody sees.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

KINDS = ("concept", "implement", "find the bug", "extend", "discuss")
ROLES = ("setup", "start", "answer", "test", "hidden", "wrong")
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
BOX = re.compile(r"^:::\{([\w-]+)\}[ \t]*(.*?)\n(.*?)^:::[ \t]*$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"^:([\w-]+):[ \t]*(.*)\n", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """A code cell and what it is for."""

    role: str
    code: str
    points: float = 0
    expect: str = ""  # of a planted wrong solution: key of the message that must reject it


@dataclass(frozen=True)
class Exercise:
    """One exercise in one language."""

    id: str
    label: str
    title: str
    kind: str
    difficulty: int
    minutes: int
    prompt: str
    hints: tuple[str, ...]
    solution: str  # words about the solution; of a discussion: the model answer
    rubric: str  # for whoever grades a discussion by hand
    messages: dict[str, str]
    cells: tuple[Cell, ...]
    manual_points: float = 0
    set_name: str = ""
    overlay: tuple[Cell, ...] = field(default=())  # hidden tests that a course adds

    def of(self, role: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.role == role]

    @property
    def points(self) -> float:
        graded = [cell for cell in (*self.cells, *self.overlay) if cell.role in ("test", "hidden")]
        return self.manual_points + sum(cell.points for cell in graded)

    @property
    def answer(self) -> str:
        """The complete solution as code."""
        return without_marks(self.of("answer")[0].code)

    @property
    def choices(self) -> list[str]:
        """What may be answered, where the visible test says so with `choices=`, as it stands there."""
        found, lists = [], {}
        for node in ast.walk(ast.parse("\n".join(cell.code for cell in self.of("test")))):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                lists[node.targets[0].id] = node.value
            elif isinstance(node, ast.keyword) and node.arg == "choices":
                found.append(node.value)
        chosen = [lists[node.id] if isinstance(node, ast.Name) else node for node in found]
        texts = [repr(value) for node in chosen for value in ast.literal_eval(node)]
        return list(dict.fromkeys(texts))

    @property
    def start(self) -> str:
        """What a student finds in the answer cell."""
        given = self.of("start")
        return given[0].code if given else stub(self.of("answer")[0].code)


@dataclass(frozen=True)
class ExerciseSet:
    """All exercises of a chapter in one language."""

    name: str
    language: str
    label: str
    title: str
    intro: str
    setup: str
    exercises: tuple[Exercise, ...]


def stub(code: str) -> str:
    """The code with each solution replaced by a line that says so when it is run."""
    pattern = re.compile(rf"^([ \t]*){BEGIN}\n.*?{END}[ \t]*\n?", re.MULTILINE | re.DOTALL)
    return pattern.sub(r"\1raise check.unanswered  # your code\n", code).rstrip("\n")


def without_marks(code: str) -> str:
    return "\n".join(line for line in code.split("\n") if line.strip() not in (BEGIN, END))


def read_set(path: Path) -> ExerciseSet:
    """Read one source.

    Raises:
        ValueError: names the file, the exercise and what is missing or unknown.
    """
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"\A---\n.*?\n---\n", "", text, count=1, flags=re.DOTALL)
    head, *sections = re.split(r"^(?=\([\w-]+\)=\n## )", text, flags=re.MULTILINE)
    title = re.search(r"^\(([\w-]+)\)=\n# (.+)$", head, re.MULTILINE)
    if not title:
        raise ValueError(f"{path}: expected a label and a title, '(label)=' and '# Title', at the top")
    setup, intro = _cells(head[title.end() :], path.name)
    if [cell.role for cell in setup] not in ([], ["setup"]):
        raise ValueError(f"{path}: before the first exercise only one cell with the role setup may stand")
    exercises = tuple(_exercise(section, path) for section in sections)
    names = [exercise.id for exercise in exercises]
    if len(set(names)) != len(names):
        raise ValueError(f"{path}: every exercise needs its own name, got {names}")
    return ExerciseSet(
        path.stem,
        path.parent.name,
        title[1],
        title[2],
        intro.strip(),
        setup[0].code if setup else "",
        exercises,
    )


def read_overlay(path: Path) -> dict[str, tuple[list[Cell], dict[str, str]]]:
    """A course's own hidden tests and their messages, by exercise: a source that holds only these."""
    text = re.sub(r"\A---\n.*?\n---\n", "", path.read_text(encoding="utf-8"), count=1, flags=re.DOTALL)
    found = {}
    for section in re.split(r"^(?=:::\{exercise\})", text, flags=re.MULTILINE)[1:]:
        name = re.match(r":::\{exercise\}[ \t]*([\w-]+)", section)
        cells, rest = _cells(section, f"{path.name}: {name[1] if name else '?'}")
        if not name or {cell.role for cell in cells} != {"hidden"}:
            raise ValueError(
                f"{path}: an overlay holds ':::{{exercise}} name' and cells with the role hidden"
            )
        if unfit := [cell.points for cell in cells if not is_worth(cell.points)]:
            raise ValueError(f"{path}: {name[1]}: points must be a number from 0 up, got {unfit[0]!r}")
        messages = [box for kind, _, box in BOX.findall(rest) if kind == "messages"]
        found[name[1]] = cells, yaml.safe_load(messages[0]) if messages else {}
    if not found:
        raise ValueError(
            f"{path}: expected ':::{{exercise}} name' and cells with the role hidden, found none"
        )
    return found


def is_worth(value: object) -> bool:
    """Whether this can be an exercise's or a test's points."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


def _cells(text: str, where: str) -> tuple[list[Cell], str]:
    """The code cells of a text, and the text without them."""
    cells = []
    for body in CELL.findall(text):
        options = {}
        while match := OPTION.match(body):
            options[match[1]] = match[2]
            body = body[match.end() :]
        described = yaml.safe_load(options.get("ex", "{}"))
        if described.get("role") not in ROLES:
            raise ValueError(
                f"{where}: a cell needs ':ex: {{role: ...}}' with one of {', '.join(ROLES)}, got {described}"
            )
        cells.append(Cell(code=body.rstrip("\n"), **described))
    return cells, CELL.sub("", text)


def _exercise(section: str, path: Path) -> Exercise:
    heading = re.match(r"\(([\w-]+)\)=\n## (.+)\n", section)
    cells, rest = _cells(section[heading.end() :], f"{path.name}: {heading[2]}")
    boxes = BOX.findall(rest)
    prompt = re.sub(r"\n{3,}", "\n\n", BOX.sub("", rest)).strip()

    def fault(text: str) -> ValueError:
        return ValueError(f"{path}: {heading[2]}: {text}")

    if not boxes or boxes[0][0] != "exercise":
        raise fault("after the heading comes ':::{exercise} name' with kind, difficulty and minutes")
    options = dict(OPTION.findall(boxes[0][2]))
    unknown = {kind for kind, _, _ in boxes[1:]} - {"hint", "solution", "messages", "rubric"}
    if unknown:
        raise fault(f"unknown directive {', '.join(sorted(unknown))}")
    one = {kind: body.strip() for kind, _, body in boxes}
    result = Exercise(
        id=boxes[0][1].strip(),
        label=heading[1],
        title=heading[2],
        kind=options.get("kind", ""),
        difficulty=int(options.get("difficulty", 0)),
        minutes=int(options.get("minutes", 0)),
        prompt=prompt,
        hints=tuple(body.strip() for kind, _, body in boxes if kind == "hint"),
        solution=one.get("solution", ""),
        rubric=one.get("rubric", ""),
        messages=yaml.safe_load(one.get("messages", "{}")) or {},
        cells=tuple(cells),
        manual_points=float(options.get("points", 0)),
        set_name=path.stem,
    )
    _check(result, fault)
    return result


def _check(exercise: Exercise, fault) -> None:
    """Stop at what an author forgot."""
    if exercise.kind not in KINDS:
        raise fault(f"kind must be one of {', '.join(KINDS)}, got {exercise.kind!r}")
    if exercise.difficulty not in (1, 2, 3) or exercise.minutes < 1:
        raise fault(
            f"difficulty must be 1, 2 or 3 and minutes at least 1, got {exercise.difficulty}, {exercise.minutes}"
        )
    if not exercise.prompt or not exercise.hints:
        raise fault("a prompt and at least one {hint} are needed")
    if exercise.kind == "discuss":
        if not exercise.solution or not exercise.rubric or not exercise.manual_points or exercise.cells:
            raise fault("a discussion has points, a {solution} and a {rubric}, and no cells")
        return
    count = {role: len(exercise.of(role)) for role in ROLES}
    hidden = exercise.kind == "concept" or count["hidden"]  # a question is right or wrong in its visible test
    if count["answer"] != 1 or count["start"] > 1 or count["test"] != 1 or not hidden:
        raise fault(
            f"one answer, one test and (but for concepts) at least one hidden test are needed, got {count}"
        )
    if count["wrong"] < 2:
        raise fault(f"at least two planted wrong solutions are needed, got {count['wrong']}")
    if not count["start"] and exercise.start == exercise.of("answer")[0].code.rstrip("\n"):
        raise fault(f"the answer needs a part between '{BEGIN}' and '{END}', or a cell with the role start")
    for cell in exercise.of("wrong"):
        if cell.expect not in exercise.messages:
            raise fault(f"a planted wrong solution expects the message {cell.expect!r}, which is not written")
