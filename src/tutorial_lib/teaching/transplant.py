"""Puts a student's answers into the notebook that was released, so that everything else is as it was.

An answer is found by its grade id, by the id of its cell, by the text of the
cell, or by the name that it defines, in this order. The student's own cells
come along, after the cell that they followed.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tutorial_lib.teaching.handed_in import cells_of

MAGIC = re.compile(
    r"^\s*(!|%(pip|conda|cd|env|system|sx|run|load|store|reset|kill)|%%|get_ipython\(\)\.(system|run_line_magic)"
    r"|from google\.colab|import google\.colab|drive\.mount)"
)
NAME = re.compile(r"^(?:def|class) (\w+)|^(\w+)(?:\s*:\s*[\w.]+)?\s*=(?!=)", re.MULTILINE)


@dataclass
class Found:
    """A notebook ready to be graded, and what was noticed on the way."""

    book: dict
    answered: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)

    def flag(self, text: str) -> None:
        if text not in self.flags:
            self.flags.append(text)


def grade_id(cell: dict) -> str | None:
    described = cell["metadata"].get("nbgrader")
    name = described.get("grade_id") if isinstance(described, dict) else None
    return name if isinstance(name, str) else None


def names(source: str) -> set[str]:
    return {first or second for first, second in NAME.findall(source)}


def is_answer(cell: dict) -> bool:
    return bool(cell["metadata"].get("nbgrader", {}).get("solution"))


def recognised(release: dict, book: dict) -> int:
    """How many cells of the release this notebook has, to choose between several notebooks."""
    known = {grade_id(cell) for cell in release["cells"]} | {cell["id"] for cell in release["cells"]}
    sources = {cell["source"].strip() for cell in release["cells"]}
    found = {name for c in cells_of(book) for name in (grade_id(c), c["id"], c["metadata"].get("id"))}
    texts = {cell["source"].strip() for cell in cells_of(book)}
    return len(known & found) + len(sources & texts)


def transplant(release: dict, book: dict | None) -> Found:
    """The released notebook with the answers of `book`; with none it is the notebook as released."""
    result = Found(copy.deepcopy(release))
    cells = cells_of(book) if book else []
    places = locate(release, cells, result)
    answers, extras = sort_out(release, cells, places, result)
    put_in(result, answers, extras)
    return result


def locate(release: dict, cells: list[dict], result: Found) -> list[str | None]:
    """For each handed-in cell the released cell that it is, or None."""
    by_id = {cell["id"]: cell["id"] for cell in release["cells"]}
    by_grade = {grade_id(cell): cell["id"] for cell in release["cells"] if grade_id(cell)}
    by_source = {cell["source"].strip(): cell["id"] for cell in release["cells"] if cell["source"].strip()}
    known = {cell["id"]: cell for cell in release["cells"]}
    places = []
    for cell in cells:
        place = by_grade.get(grade_id(cell))
        if place is None:
            kept = [cell["id"], cell["metadata"].get("id")]
            place = next((by_id[name] for name in kept if isinstance(name, str) and name in by_id), None)
            text = cell["source"].strip()
            place = place or by_source.get(text)
            if place is None and len(text) > 40:  # a test, which begins with more in the grader's version
                place = next((name for source, name in by_source.items() if source.endswith(text)), None)
            if place is not None and known[place]["metadata"].get("nbgrader"):
                result.flag("lost-metadata")
        places.append(place)
    missing = [c for c in release["cells"] if is_answer(c) and c["id"] not in places]
    for answer in missing:
        fits = by_name(answer, missing, cells) if answer["cell_type"] == "code" else after_prompt
        for number in range(len(cells)):
            if places[number] is None and fits(number, release, cells, places, answer):
                places[number] = answer["id"]
                result.flag("lost-metadata")
    return places


def by_name(answer: dict, missing: list[dict], cells: list[dict]) -> Callable:
    """Whether a cell defines what this answer defines, and nothing of another missing answer."""
    wanted = names(answer["source"])
    others = {n for c in missing if c is not answer and c["cell_type"] == "code" for n in names(c["source"])}

    def fits(number, *_):
        own = names(cells[number]["source"])
        return bool(wanted & own) and not others & own

    return fits


def after_prompt(number, release, cells, places, answer) -> bool:
    """Whether a text follows the question that it may answer."""
    position = [cell["id"] for cell in release["cells"]].index(answer["id"])
    prompt = release["cells"][position - 1]["id"]
    return number > 0 and cells[number]["cell_type"] == "markdown" and places[number - 1] == prompt


def sort_out(release, cells, places, result) -> tuple[dict[str, str], dict[str | None, list[str]]]:
    """The chosen text of each answer, and the student's own cells by the cell that they follow."""
    known = {cell["id"]: cell for cell in release["cells"]}
    answers: dict[str, str] = {}
    extras: dict[str | None, list[str]] = {}
    seen, anchor = set(), None
    for cell, place in zip(cells, places, strict=True):
        source = cell["source"]
        if place is None:
            if cell["cell_type"] == "code" and source.strip() and not is_badge(source):
                extras.setdefault(anchor, []).append(source)
            continue
        anchor, original = place, known[place]
        changed = source.strip() != original["source"].strip()
        if is_answer(original):
            if place in seen and changed and answers.get(place, source).strip() != source.strip():
                result.flag("answered-twice")
            if changed and source.strip():
                answers[place] = source  # of several copies the last that was worked on
            if cell["cell_type"] != original["cell_type"]:
                result.flag("changed-cell-type")
        elif "nbgrader" in original["metadata"] and original["metadata"]["nbgrader"].get("grade"):
            if not original["source"].strip().endswith(source.strip()):  # the grader's begins with more
                result.flag("edited-tests")
        seen.add(place)
    for cell in release["cells"]:
        described = cell["metadata"].get("nbgrader", {})
        given_out = is_answer(cell) or described.get("grade_id", "").endswith("-test")
        if cells and given_out and cell["id"] not in seen:
            result.flag("deleted-cells")
    return answers, extras


def is_badge(source: str) -> bool:
    return "colab-badge" in source


def put_in(result: Found, answers: dict[str, str], extras: dict[str | None, list[str]]) -> None:
    cells = []

    def add_extras(anchor: str | None) -> None:
        for source in extras.get(anchor, []):
            result.flag("extra-cells")
            cells.append(
                {
                    "cell_type": "code",
                    "id": f"extra-{len(cells)}",
                    "metadata": {},
                    "source": without_magic(source, result),
                    "outputs": [],
                    "execution_count": None,
                }
            )

    add_extras(None)
    merged = [n for sources in extras.values() for source in sources for n in names(source)]
    for cell in result.book["cells"]:
        if is_answer(cell) and cell["id"] in answers:
            code = cell["cell_type"] == "code"
            text = answers[cell["id"]]
            cell["source"] = without_magic(text, result) if code else text
            result.answered.append(grade_id(cell))
        elif is_answer(cell) and cell["cell_type"] == "code" and names(cell["source"]) & set(merged):
            # The student solved it in a cell of their own: the empty answer must not overwrite it.
            cell["source"] = "# answered in another cell"
            result.answered.append(grade_id(cell))
            result.flag("answered-elsewhere")
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
        cells.append(cell)
        add_extras(cell["id"])
    result.book["cells"] = cells


def without_magic(source: str, result: Found) -> str:
    """The code without commands to the shell, to pip or to Colab, which mean nothing here."""
    lines = source.split("\n")
    if lines and re.match(r"\s*%%(?!time|capture)", lines[0]):
        result.flag("commands-removed")
        return "\n".join(f"# removed: {line}" for line in lines)
    kept = []
    for line in lines:
        if MAGIC.match(line):
            result.flag("commands-removed")
            indent = line[: len(line) - len(line.lstrip())]
            line = f"{indent}pass  # removed: {line.strip()}"
        kept.append(line)
    return "\n".join(kept)
