"""What is kept of each submission: a file of results, and which of them were handed in to the last run.

Results of files that are gone stay on the disk, because a file may come back under another
name; no table and no page shows them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

FORM = 2  # of a stored result; what an older version stored is graded anew


def student_key(student: str) -> str:
    """A short name that every file system and nbgrader can hold."""
    return "s" + hashlib.sha256(student.encode("utf-8", "replace")).hexdigest()[:10]


def write_whole(path: Path, value: object) -> None:
    """All of it or nothing: a killed run leaves no half file that counts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
    os.replace(partial, path)


def store(target: Path, result: dict) -> dict:
    """Keep a result."""
    write_whole(target / "grader" / "results" / f"{result['key']}.json", result)
    return result


def remember(target: Path, students: Iterable[str]) -> None:
    """Keep who is among the submissions now."""
    write_whole(target / "grader" / "handed_in.json", [student_key(student) for student in students])


def both(target: Path) -> tuple[list[dict], list[dict]]:
    """The results of what was handed in to the last run, and of what was there before and is gone.

    Raises:
        ValueError: if nothing has been graded yet.
    """
    path = target / "grader" / "handed_in.json"
    if not path.exists():
        raise ValueError(
            f"nothing in {target} has been graded yet: tutorial-lib teach grade {target} SUBMISSIONS comes first"
        )
    present = set(json.loads(path.read_text(encoding="utf-8")))
    found = [json.loads(p.read_text(encoding="utf-8")) for p in (target / "grader/results").glob("*.json")]
    found.sort(key=lambda result: result["student"])
    now = [result for result in found if result["key"] in present]
    return now, [result for result in found if result["key"] not in present]


def current(target: Path) -> list[dict]:
    """The results of what was handed in to the last run, by student."""
    return both(target)[0]


def gone(target: Path) -> list[dict]:
    """The results of what was handed in earlier and is no longer among the submissions."""
    return both(target)[1]
