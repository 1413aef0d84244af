"""Points by hand: a table that goes out to be filled in and comes back. Nothing that was typed is lost.

Points belong to the name of a file. Where the same content comes back under another name, they follow it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tutorial_lib.teaching.kept import both, write_whole
from tutorial_lib.teaching.tables import read_csv, write_csv
from tutorial_lib.teaching.words import REPORT

WITHDRAWN = "-"  # in place of points


@dataclass(frozen=True)
class Taken:
    """What a filled table brought."""

    points: int  # how many were taken over
    withdrawn: int
    empty: int  # without points now, although there are earlier ones, which stay


def given(target: Path) -> dict[str, dict]:
    """Points and comments taken over so far, by the key of the student and the name of the exercise."""
    path = target / "grader" / "by_hand.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep(target: Path, hand: dict[str, dict]) -> None:
    write_whole(target / "grader" / "by_hand.json", hand)


def marked(described: dict, result: dict, hand: dict) -> tuple[float, float, bool]:
    """Automatic points, points by hand, and whether some are still to be given."""
    auto = sum(result["points"][e["name"]] for e in described["exercises"] if not e["manual"])
    own, manual, waiting = hand.get(result["key"], {}), 0.0, False
    for exercise in described["exercises"]:
        if exercise["manual"]:
            points = own.get(exercise["name"], {}).get("points")
            waiting |= points is None and exercise["name"] in result["answers"]
            manual += points or 0
    return round(auto, 4), round(manual, 4), waiting


def heirs(now: list[dict], before: list[dict]) -> list[tuple[dict, dict]]:
    """Pairs of a result that is gone and the one with the same content: a file that was renamed.

    Where two have the same content, nobody can tell which of them was renamed, so neither is.
    """
    pairs = []
    for old in before:
        content = old.get("content")
        new = [result for result in now if content and result.get("content") == content]
        same = [result for result in before if result.get("content") == content]
        if len(new) == len(same) == 1:
            pairs.append((old, new[0]))
    return pairs


def carry_over(target: Path) -> None:
    """Let points follow files that were renamed, unless the new name has points of its own."""
    hand = given(target)
    now, before = both(target)
    for old, new in heirs(now, [result for result in before if hand.get(result["key"])]):
        if not hand.get(new["key"]):
            hand[new["key"]] = hand.pop(old["key"])
    keep(target, hand)


def typed(target: Path, words: dict) -> dict[tuple[str, str], dict[str, str]]:
    """Rows of the table into which somebody has typed something, by student and exercise."""
    path = target / "by_hand.csv"
    rows = read_csv(path) if path.exists() else []
    return {
        (row.get(words["student"], ""), row.get(words["exercise"], "")): row
        for row in rows
        if row.get(words["points"]) or row.get(words["comment"])
    }


def strays(target: Path, described: dict) -> list[str]:
    """Names that are no longer among the submissions, once for each exercise with points typed for them."""
    now, before = both(target)
    present, hand = {result["student"] for result in now}, given(target)
    words = REPORT[described["language"]]
    rows = typed(target, words).items()
    found = {at for at, row in rows if at[0] not in present and row.get(words["points"]) != WITHDRAWN}
    found |= {(result["student"], name) for result in before for name in hand.get(result["key"], {})}
    return sorted(student for student, _ in found)


def marks_sheet(target: Path, described: dict) -> Path:
    """Write `by_hand.csv`: an answer per row, with a place for points and comment.

    What somebody has typed into the table and not yet handed over with `--filled` stays in it,
    and so does what was typed for a name that is gone: at the end, below all others.
    """
    words, hand = REPORT[described["language"]], given(target)
    names = [
        words[n] for n in ("student", "exercise", "points", "of", "comment", "answer", "rubric", "model")
    ]
    rows, filled = [names], typed(target, words)
    now, before = both(target)
    with_words = {student for student, _ in filled}
    for old, new in heirs(now, [result for result in before if result["student"] in with_words]):
        for exercise in described["exercises"]:
            row = filled.get((old["student"], exercise["name"]))
            if row and (new["student"], exercise["name"]) not in filled:
                filled[new["student"], exercise["name"]] = filled.pop((old["student"], exercise["name"]))
    for number, result in enumerate([*now, *before]):
        for exercise in (e for e in described["exercises"] if e["manual"]):
            own = taken = hand.get(result["key"], {}).get(exercise["name"], {})
            if row := filled.pop((result["student"], exercise["name"]), None):
                own = {"points": row.get(words["points"], ""), "comment": row.get(words["comment"], "")}
            answer = result["answers"].get(exercise["name"])
            useful = taken or (own and own["points"] != WITHDRAWN)
            if useful or (answer is not None and number < len(now)):
                row = [result["student"], exercise["name"], own.get("points", ""), exercise["points"]]
                row += [own.get("comment", ""), answer or "", exercise["rubric"], exercise["model"]]
                rows.append(row)
    rows += [[row.get(name, "") for name in names] for row in filled.values()]  # of nobody we know
    write_csv(target / "by_hand.csv", rows)
    return target / "by_hand.csv"


def read_marks(target: Path, described: dict, sheet: Path) -> Taken:
    """Take over the points of a filled `by_hand.csv`.

    An empty place takes no points away, so that two people can each fill in a part of the table.

    Raises:
        ValueError: if a student or exercise is unknown, or points are no number between 0 and the most.
    """
    words, hand = REPORT[described["language"]], given(target)
    now, before = both(target)
    keys = {result["student"]: result["key"] for result in [*before, *now]}
    most = {e["name"]: e["points"] for e in described["exercises"] if e["manual"]}
    count = withdrawn = empty = 0
    for line, row in enumerate(read_csv(sheet), start=2):
        student, exercise = row.get(words["student"], ""), row.get(words["exercise"], "")
        if student not in keys or exercise not in most:
            raise ValueError(f"{sheet}, row {line}: there is no answer of {student!r} to {exercise!r}")
        text = row.get(words["points"], "").replace(",", ".")
        own = hand.setdefault(keys[student], {})
        if text == WITHDRAWN:
            withdrawn += own.pop(exercise, None) is not None
        elif not text:
            empty += exercise in own
        else:
            try:
                points = float(text)
            except ValueError:
                points = -1
            if not 0 <= points <= most[exercise]:
                raise ValueError(
                    f"{sheet}, row {line}: points must be 0 to {most[exercise]:g}, "
                    f"or {WITHDRAWN} to withdraw them, got {text!r}"
                )
            own[exercise] = {"points": points, "comment": row.get(words["comment"], "")}
            count += 1
    keep(target, {key: own for key, own in hand.items() if own})
    carry_over(target)
    return Taken(count, withdrawn, empty)
