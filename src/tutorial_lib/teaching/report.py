"""What comes out of grading: a table for Excel, points given by hand, and feedback for each student."""

from __future__ import annotations

import html
import json
from pathlib import Path

from tutorial_lib.teaching.roster import Person, find_person, lateness
from tutorial_lib.teaching.tables import read_csv, safe, write_csv
from tutorial_lib.teaching.words import number

HEADINGS = {
    "en": {
        "student": "student", "name": "name", "status": "status", "flags": "flags", "auto": "automatic",
        "manual": "by hand", "total": "total", "of": "out of", "seconds": "seconds", "late": "late",
        "ok": "ok", "look": "look at it", "nothing": "nothing", "waiting": "points by hand missing",
        "points": "points", "comment": "comment", "answer": "answer", "exercise": "exercise",
        "rubric": "rubric", "model": "model answer", "passed": "All tests pass.",
        "stopped": "The cell stopped with {name}.", "unanswered": "No answer was found.",
        "another_kind": "The answer differs from what is asked for in its type, dtype, shape or number of results, contains NaN or infinity, or is not one of the allowed answers. The tests in the notebook say which.",
        "slow": "The cell did not finish in the time allowed. Check whether a loop never ends.",
        "to_come": "Points will be given by hand.", "seen": "The grader will look at your notebook once more.",
    },
    "ko": {
        "student": "학생", "name": "이름", "status": "상태", "flags": "표시", "auto": "자동 채점",
        "manual": "수동 채점", "total": "합계", "of": "만점", "seconds": "걸린 시간(초)", "late": "지각",
        "ok": "정상", "look": "확인 필요", "nothing": "제출 없음", "waiting": "수동 채점 남음",
        "points": "점수", "comment": "의견", "answer": "답", "exercise": "문제",
        "rubric": "채점 기준", "model": "모범 답안", "passed": "모든 테스트를 통과했습니다.",
        "stopped": "셀이 {name} 때문에 멈췄습니다.", "unanswered": "답을 찾지 못했습니다.",
        "another_kind": "답의 타입, dtype, 모양, 결과의 개수 가운데 문제에서 요구한 것과 다른 것이 있거나, NaN이나 무한대가 들어 있거나, 쓸 수 있는 답이 아닙니다. 노트북의 테스트를 실행하면 어느 것인지 나옵니다.",
        "slow": "정해진 시간 안에 끝나지 않았습니다. 끝나지 않는 반복문이 있는지 살펴보세요.",
        "to_come": "채점자가 직접 읽고 점수를 매깁니다.", "seen": "채점자가 노트북을 한 번 더 살펴봅니다.",
    },
}  # fmt: skip


def results(target: Path) -> list[dict]:
    """Every stored result of an assignment, by student."""
    found = [json.loads(p.read_text(encoding="utf-8")) for p in (target / "grader/results").glob("*.json")]
    return sorted(found, key=lambda result: result["student"])


def given_by_hand(target: Path) -> dict[str, dict]:
    path = target / "grader" / "by_hand.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def marked(described: dict, result: dict, hand: dict) -> tuple[float, float, bool]:
    """Automatic points, points by hand, and whether some are still to be given."""
    auto = sum(result["points"][e["name"]] for e in described["exercises"] if not e["manual"])
    own, manual, waiting = hand.get(result["key"], {}), 0.0, False
    for exercise in described["exercises"]:
        if exercise["manual"]:
            points = own.get(exercise["name"], {}).get("points")
            waiting |= points is None and exercise["name"] in result["answers"]
            manual += points or 0
    return auto, manual, waiting


def grades(target: Path, described: dict, roster: list[Person] | None = None) -> Path:
    """Write `grades.csv`: one row per student, and one for each name of the roster that handed in nothing."""
    words, language = HEADINGS[described["language"]], described["language"]
    exercises, best = described["exercises"], sum(e["points"] for e in described["exercises"])
    hand, missing, strangers = given_by_hand(target), list(roster or []), set()
    names = ["student", "name", "status", "flags", "late", "auto", "manual", "total", "of"]
    rows = [[*(words[n] for n in names), *(f"{e['name']} {e['title']}" for e in exercises), words["seconds"]]]
    for result in results(target):
        person, flags = find_person(missing, result["student"]), list(result["flags"])
        if person:
            missing.remove(person)
        elif roster:
            flags.append("not-in-roster")
            strangers.add(result["student"])
        auto, manual, waiting = marked(described, result, hand)
        state = words["waiting"] if waiting and result["status"] == "ok" else words[result["status"]]
        own = hand.get(result["key"], {})
        each = [
            own.get(e["name"], {}).get("points", "") if e["manual"] else result["points"][e["name"]]
            for e in exercises
        ]
        who = [person.student, person.name] if person else [result["student"], ""]
        late = lateness(described["deadline"], person, "late" in flags, language)
        row = [*who, state, " ".join(flag for flag in flags if flag != "late"), late]
        rows.append([*row, auto, manual, auto + manual, best, *each, result["seconds"]])
    for person in missing:
        state, flag = ("look", "same-name") if person.name in strangers else ("nothing", "nothing-handed-in")
        rows.append([person.student, person.name, words[state], flag, "", 0, 0, 0, best])
    write_csv(target / "grades.csv", rows)
    return target / "grades.csv"


def marks_sheet(target: Path, described: dict) -> Path:
    """Write `by_hand.csv`: an answer per row, with a place for points and comment.

    What somebody has typed into the table and not yet handed over with `--filled` stays in it.
    """
    words, hand, path = HEADINGS[described["language"]], given_by_hand(target), target / "by_hand.csv"
    rows = [
        [words[n] for n in ("student", "exercise", "points", "of", "comment", "answer", "rubric", "model")]
    ]
    typed = {}
    for row in read_csv(path) if path.exists() else ():
        if row.get(words["points"]) or row.get(words["comment"]):
            own = {"points": row.get(words["points"], ""), "comment": row.get(words["comment"], "")}
            typed[row.get(words["student"]), row.get(words["exercise"])] = own
    for result in results(target):
        for exercise in described["exercises"]:
            if exercise["name"] in result["answers"]:
                own = hand.get(result["key"], {}).get(exercise["name"], {})
                own = typed.get((safe(result["student"]), exercise["name"]), own)
                row = [result["student"], exercise["name"], own.get("points", ""), exercise["points"]]
                row += [own.get("comment", ""), result["answers"][exercise["name"]]]
                rows.append([*row, exercise["rubric"], exercise["model"]])
    write_csv(path, rows)
    return path


def read_marks(target: Path, described: dict, sheet: Path) -> int:
    """Take over the points of a filled `by_hand.csv`; returns how many there were.

    Raises:
        ValueError: if a student or exercise is unknown, or points are no number between 0 and the most.
    """
    words, hand, count = HEADINGS[described["language"]], given_by_hand(target), 0
    keys = {str(safe(r["student"])): r["key"] for r in results(target)}
    most = {e["name"]: e["points"] for e in described["exercises"] if e["manual"]}
    for line, row in enumerate(read_csv(sheet), start=2):
        student, exercise = row.get(words["student"], ""), row.get(words["exercise"], "")
        if student not in keys or exercise not in most:
            raise ValueError(f"{sheet}, row {line}: there is no answer of {student!r} to {exercise!r}")
        text = row.get(words["points"], "").replace(",", ".")
        if not text:
            continue
        try:
            points = float(text)
        except ValueError:
            points = -1
        if not 0 <= points <= most[exercise]:
            raise ValueError(f"{sheet}, row {line}: points must be 0 to {most[exercise]:g}, got {text!r}")
        given = hand.setdefault(keys[student], {})
        given[exercise] = {"points": points, "comment": row.get(words["comment"], "")}
        count += 1
    path = target / "grader" / "by_hand.json"
    path.write_text(json.dumps(hand, ensure_ascii=False, indent=1), encoding="utf-8")
    return count


def feedback(target: Path, described: dict) -> list[Path]:
    """Write a page per student into `feedback/`: points and messages.

    Nothing that a submission printed gets into it, and no test: only sentences
    that the exercises themselves bring, chosen by their keys.
    """
    words, hand, written = HEADINGS[described["language"]], given_by_hand(target), []
    folder = target / "feedback"
    folder.mkdir(exist_ok=True)
    for result in results(target):
        auto, manual, _ = marked(described, result, hand)
        rows = []
        for exercise in described["exercises"]:
            points, text = comment(described, exercise, result, hand.get(result["key"], {}), words)
            cells = [exercise["title"], f"{points} / {number(exercise['points'])}", text]
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
        total = f"{number(auto + manual)} / {number(sum(e['points'] for e in described['exercises']))}"
        note = f"<p>{words['seen']}</p>" if result["status"] == "look" else ""
        page = PAGE.format(
            language=described["language"],
            title=html.escape(described["title"]),
            student=html.escape(result["student"]),
            total=total,
            note=note,
            rows="\n".join(rows),
        )
        path = folder / f"{file_name(result)}.html"
        path.write_text(page, encoding="utf-8")
        written.append(path)
    return written


def comment(described: dict, exercise: dict, result: dict, own: dict, words: dict) -> tuple[str, str]:
    """Points as text and the sentence for one exercise."""
    if exercise["manual"]:
        given = own.get(exercise["name"])
        if given:
            return number(given["points"]), given["comment"]
        return (
            ("-", words["to_come"]) if exercise["name"] in result["answers"] else ("0", words["unanswered"])
        )
    points, key = number(result["points"][exercise["name"]]), result["messages"].get(exercise["name"])
    if key is None:
        full = result["points"][exercise["name"]] >= exercise["points"]
        return points, words["passed"] if full else words["unanswered"]
    if key == "error:KeyboardInterrupt":
        return points, words["slow"]
    if key.startswith("error:"):
        return points, words["stopped"].format(name=key.removeprefix("error:"))
    if key.startswith("unanswered"):
        return points, words["unanswered"]
    from tutorial_lib.teaching.checking import COMMON

    text = exercise["messages"].get(key) or COMMON[described["language"]].get(key, "")
    # What stood in the gaps came out of the submission's kernel, so it is not repeated here.
    return points, words["another_kind"] if "{" in text else text


def file_name(result: dict) -> str:
    """The student's name as far as every file system can hold it, and a key that makes it unique."""
    name = "".join(char if char.isalnum() or char in "-_" else "_" for char in result["student"])[:40]
    return f"{name}-{result['key']}"


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
