"""A page of feedback for each student: points, and the sentence that names each mistake.

Nothing that a submission printed gets into a page, and no test: only sentences
that are written here and in the exercises, chosen by their keys.
"""

from __future__ import annotations

import html
import os
import re
from pathlib import Path

from tutorial_lib.teaching.by_hand import given, marked
from tutorial_lib.teaching.checking import COMMON
from tutorial_lib.teaching.handed_in import LARGEST
from tutorial_lib.teaching.kept import both
from tutorial_lib.teaching.words import REPORT, number

# Messages that say nothing without what stands in their gaps.
TYPES = (
    "not-a-tensor", "wrong-dtype", "wrong-shape", "wrong-kind", "not-finite", "not-these-results",
    "not-a-choice", "not-a-number",
)  # fmt: skip


def feedback(target: Path, described: dict) -> list[Path]:
    """Write a page for each submission into `feedback/`.

    Pages that were written for files no longer among the submissions move to
    `feedback-old/`. Other files are left alone, wherever they lie.
    """
    hand, written = given(target), []
    now, before = both(target)
    folder, old = target / "feedback", target / "feedback-old"
    folder.mkdir(exist_ok=True)
    for result in before:
        if (page := folder / file_name(result)).exists():
            old.mkdir(exist_ok=True)
            os.replace(page, old / page.name)
    for result in now:
        path = folder / file_name(result)
        path.write_text(page_of(described, result, hand), encoding="utf-8")
        written.append(path)
    return written


def page_of(described: dict, result: dict, hand: dict) -> str:
    words = REPORT[described["language"]]
    auto, manual, _ = marked(described, result, hand)
    nothing, rows = no_notebook(result, words), []
    for exercise in described["exercises"]:
        points, text = comment(described, exercise, result, hand.get(result["key"], {}), words)
        cells = [exercise["title"], f"{points} / {number(exercise['points'])}", "" if nothing else text]
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    note = nothing or (words["seen"] if result["status"] == "look" else "")
    return PAGE.format(
        language=described["language"],
        title=html.escape(described["title"]),
        student=html.escape(result["student"]),
        total=f"{number(auto + manual)} / {number(sum(e['points'] for e in described['exercises']))}",
        note=f"<p>{note}</p>" if note else "",
        rows="\n".join(rows),
    )


def no_notebook(result: dict, words: dict) -> str:
    """Why no answer at all was found, where it was not for want of answers."""
    if "no-notebook" not in result["flags"]:
        return ""
    if "too-large" not in result["flags"]:
        return words["no_notebook"]
    size, most = (-(-n // 1_000_000) for n in (result["size"], LARGEST))
    return words["too_large"].format(size=size, most=most)


def comment(described: dict, exercise: dict, result: dict, own: dict, words: dict) -> tuple[str, str]:
    """Points as text and the sentence for one exercise."""
    if exercise["manual"]:
        points = own.get(exercise["name"])
        if points:
            return number(points["points"]), points["comment"]
        return (
            ("-", words["to_come"]) if exercise["name"] in result["answers"] else ("0", words["unanswered"])
        )
    points, key = number(result["points"][exercise["name"]]), result["messages"].get(exercise["name"])
    if key is None:
        full = result["points"][exercise["name"]] >= exercise["points"]
        return points, words["passed"] if full else words["unanswered"]
    if key.startswith("error:"):
        place = result["places"].get(exercise["name"], {})
        return points, stopped(key.removeprefix("error:"), place, words)
    if key.startswith("unanswered"):
        return points, words["unanswered"]
    text = exercise["messages"].get(key) or COMMON[described["language"]].get(key, "")
    if "{" in text and key in TYPES:
        return points, another_kind(key, exercise, words)
    # What stood in the gaps came out of the submission's kernel, so it is not repeated here.
    return points, re.sub(r"\{[^{}]*\}", "…", text)


def stopped(error: str, place: dict, words: dict) -> str:
    """The sentence for an error of Python's, with the line of the answer and the unknown name where known."""
    if error == "KeyboardInterrupt":
        return words["slow"]
    line = place.get("line")
    if error in ("SyntaxError", "IndentationError", "TabError") and line:
        return words["unreadable"].format(line=line, error=error)
    where = words["where"].format(line=line) if line else ""
    if "name" in place:
        text = where + words["no_name"].format(name=place["name"])
    else:
        text = where + words["stopped"].format(name=error)
    return text[:1].upper() + text[1:]


def another_kind(key: str, exercise: dict, words: dict) -> str:
    """What kind of answer is asked for, where the answer is of another."""
    choices = exercise.get("choices", [])  # none in an assignment of an older version
    if key == "not-a-choice" and choices:
        return words["not_a_choice"].format(choices=", ".join(choices))
    if key == "not-a-number" or (key == "not-finite" and exercise["kind"] == "concept"):
        return words["not_a_number"]
    return words["another_kind"]


def file_name(result: dict) -> str:
    """The student's name as far as every file system can hold it, and a key that makes it unique."""
    name = "".join(char if char.isalnum() or char in "-_" else "_" for char in result["student"])[:40]
    return f"{name}-{result['key']}.html"


PAGE = """<!doctype html>
<html lang="{language}"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><style>
body {{ font-family: system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem; line-height: 1.6; word-break: keep-all }}
td {{ border-top: 1px solid #bbb; padding: .5rem; vertical-align: top }} td:nth-child(2) {{ white-space: nowrap }}
</style></head><body><h1>{title}</h1><p>{student}: <strong>{total}</strong></p>{note}
<table>
{rows}
</table></body></html>
"""
