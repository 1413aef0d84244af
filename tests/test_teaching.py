"""Whatever is handed in: one row, the right answers in the released notebook, the right words in the reports."""

import json
import os
import re
import subprocess
import sys
import unicodedata
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT
from kind_files import NAMES, Workshop, solved, write_all
from kind_list import KINDS
from stored import DESCRIBED, Nothing, keep, said

from tutorial_lib.teaching import assign, by_hand, cli, collection, handed_in, kept, report, verdict
from tutorial_lib.teaching.assign import Wanted, choose
from tutorial_lib.teaching.feedback import comment, feedback
from tutorial_lib.teaching.grade import choose_notebook
from tutorial_lib.teaching.notebooks import Sheet, grader_notebook, student_notebook
from tutorial_lib.teaching.roster import read_roster
from tutorial_lib.teaching.tables import read_csv
from tutorial_lib.teaching.transplant import transplant, without_magic
from tutorial_lib.teaching.words import REPORT

LANGUAGE = "ko"


@pytest.fixture(scope="module")
def exercises():
    return collection.names(collection.read_all(ROOT / "exercises", LANGUAGE))


@pytest.fixture(scope="module")
def sheet(exercises):
    chosen = tuple(exercises[name] for name in NAMES)
    return Sheet("hw1", "과제 1", LANGUAGE, chosen, "import torch")


@pytest.fixture(scope="module")
def shop(sheet, exercises):
    return Workshop(json.loads(json.dumps(student_notebook(sheet, "x"))), exercises)


@pytest.fixture(scope="module")
def release(sheet):
    """The grader's notebook as nbgrader releases it: hidden tests taken out."""
    book = json.loads(json.dumps(grader_notebook(sheet, "x", "nonce")))
    for cell in book["cells"]:
        cell["source"] = cell["source"].split("### BEGIN HIDDEN")[0]
    return book


def cell(book, name):
    (found,) = [c for c in book["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == name]
    return found["source"]


ODD = [kind for kind in KINDS if not kind.runs]


@pytest.mark.parametrize("kind", ODD, ids=[kind.name for kind in ODD])
def test_answers_are_found_in_whatever_form_they_come(kind, shop, release, tmp_path):
    write_all(shop, tmp_path, [kind])
    (entry,) = handed_in.find(tmp_path)
    book, flags = choose_notebook(release, entry)
    found = transplant(release, book)
    flags += found.flags
    if kind.flags == ("unchanged",):
        assert found.answered == []
        return
    assert set(kind.flags) - {"another-notebook"} <= set(flags)
    if kind.points == (0, 0):
        assert found.answered == []
        return
    assert {"05-attend-answer", "05-table-answer", "05-importance-answer"} == set(found.answered)
    space = {}
    exec("import torch", space)
    for one in found.book["cells"]:
        name = one["metadata"].get("nbgrader", {}).get("grade_id", "extra")
        if one["cell_type"] == "code" and (name.endswith("-answer") or name == "extra"):
            exec(one["source"], space)
    assert space["attends_most_to"] == "on"
    weights = space["attend"](*[space["torch"].ones(1, 2, 3)] * 3)[1]
    assert weights.tolist() == [[[0.5, 0.5], [0.5, 0.5]]]
    assert "값 벡터" in cell(found.book, "05-importance-answer")


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_the_tests_of_a_transplanted_notebook_are_the_released_ones(kind, shop, release, tmp_path):
    write_all(shop, tmp_path, [kind])
    (entry,) = handed_in.find(tmp_path)
    found = transplant(release, choose_notebook(release, entry)[0])
    for one in release["cells"]:
        described = one["metadata"].get("nbgrader", {})
        if described.get("grade") and not described["solution"]:
            assert cell(found.book, described["grade_id"]) == one["source"]


def test_no_submission_costs_another_its_row(shop, tmp_path):
    owners = write_all(shop, tmp_path, KINDS)
    entries = handed_in.find(tmp_path)
    assert len(entries) == len(owners) == len(KINDS)


def test_names_of_platforms_and_macs_become_names_of_people(tmp_path):
    for name in ("홍길동_12345_assignsubmission_file_", "kimminsu_late_123456_7891011_hw1.ipynb"):
        assert handed_in.student_name(tmp_path / name) in ("홍길동", "kimminsu")
    for name in ("hw1_20260001", "홍길동_20260001"):  # a student's own number is no platform's
        assert handed_in.student_name(tmp_path / f"{name}.ipynb") == name
    decomposed = unicodedata.normalize("NFD", "이서연") + ".ipynb"
    assert handed_in.student_name(tmp_path / decomposed) == "이서연"


def test_two_students_of_one_name_get_two_rows(shop, tmp_path):
    for name in ("이서연", unicodedata.normalize("NFD", "이서연")):
        (tmp_path / f"{name}.ipynb").write_bytes(solved(shop))
    if len(list(tmp_path.iterdir())) == 1:
        pytest.skip("this file system composes names")
    first, second = handed_in.find(tmp_path)
    assert {first.student, second.student} == {"이서연", "이서연 (2)"} and "same-name" in second.notes


def test_canvas_says_late_in_the_name_of_the_file(shop, tmp_path):
    for name in ("kim_late_123456_7891011_hw1", "lee_123456_7891011_hw1", "late_bird"):
        (tmp_path / f"{name}.ipynb").write_bytes(solved(shop))
    assert [(e.student, e.notes) for e in handed_in.find(tmp_path)] == [
        ("kim", ("late",)),
        ("late_bird", ()),
        ("lee", ()),
    ]


def test_an_archive_of_many_large_files_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(handed_in, "MOST_BYTES", 3_000_000)
    with zipfile.ZipFile(tmp_path / "kim.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(9):
            archive.writestr(f"{number}.ipynb", b" " * 1_000_000)
    (entry,) = handed_in.find(tmp_path)
    assert len(entry.files) == 3 and entry.notes == ("too-large",)


def large(book, size, *, outputs):
    """The notebook with so many bytes more, in an output or in a text of the student's."""
    book = json.loads(json.dumps(book))
    if outputs:
        book["cells"][1]["outputs"] = [{"output_type": "display_data", "data": {"image/png": "A" * size}}]
    else:
        book["cells"][0]["source"] += "A" * size
    return json.dumps(book).encode()


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    "size, outputs, flags",
    [(100, True, ()), (3000, True, ("outputs-dropped",)), (3000, False, ("too-large",)), (9000, True, ("too-large",))],
)  # fmt: skip
def test_a_notebook_that_only_its_outputs_make_large_is_read(
    size, outputs, flags, zipped, shop, release, tmp_path, monkeypatch
):
    small = len(large(shop.book(), 0, outputs=True))
    monkeypatch.setattr(handed_in, "LARGEST", small + 1000)
    monkeypatch.setattr(handed_in, "LARGEST_WITH_OUTPUTS", small + 5000)
    content = large(shop.book(), size, outputs=outputs)
    if zipped:
        with zipfile.ZipFile(tmp_path / "kim.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("hw1.ipynb", content)
    else:
        (tmp_path / "kim.ipynb").write_bytes(content)
    (entry,) = handed_in.find(tmp_path)
    book, found = choose_notebook(release, entry)
    assert tuple(flag for flag in found if flag != "no-notebook") == flags
    assert entry.size == (len(content) if "too-large" in flags else 0)
    if "too-large" not in flags:
        assert "05-attend-answer" in transplant(release, book).answered


def test_a_large_file_of_very_many_values_is_not_parsed(monkeypatch):
    monkeypatch.setattr(handed_in, "parse", lambda content: pytest.fail("it takes gigabytes"))
    assert handed_in.without_outputs(b'{"cells": [' + b"[]," * 1_000_001 + b"[]]}") is None


def test_commands_are_removed_without_breaking_the_code_around_them(release):
    found = transplant(release, None)
    code = "if True:\n    !pip install x\nx = 1 % 2\nprint('!no')"
    cleaned = without_magic(code, found)
    exec(cleaned)
    assert "    pass  # removed: !pip install x" in cleaned and found.flags == ["commands-removed"]


def test_exercises_are_chosen_by_chapter_kind_difficulty_and_minutes(exercises):
    assert [e.id for e in choose(exercises, Wanted(names=("05-attend", "01-batch")))] == ["attend", "batch"]
    assert all(e.set_name.startswith("05") for e in choose(exercises, Wanted(chapters=("05",))))
    easy = choose(exercises, Wanted(difficulties=(1,), minutes=20))
    assert easy and sum(e.minutes for e in easy) <= 20 and {e.difficulty for e in easy} == {1}
    some = choose(exercises, Wanted(chapters=("01", "05"), difficulties=(1, 2), minutes=60))
    assert sum(e.minutes for e in some) <= 60 and some == [e for e in exercises.values() if e in some]
    assert {sum(e.minutes for e in some if e.set_name[:2] == c) > 10 for c in ("01", "05")} == {True}
    with pytest.raises(ValueError, match="no exercise is called 05-nothing"):
        choose(exercises, Wanted(names=("05-nothing",)))
    with pytest.raises(ValueError, match="no exercise fits"):
        choose(exercises, Wanted(minutes=1))
    with pytest.raises(ValueError, match="no kind is called 개념; there are concept, implement"):
        choose(exercises, Wanted(kinds=("개념",)))
    with pytest.raises(ValueError, match="no chapter with exercises is called 99; there are 01, 02"):
        choose(exercises, Wanted(chapters=("99",)))


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--difficulty", "hard"], "no difficulty is called hard; there are 1, 2, 3"),
        (["--deadline", "next Friday"], "the deadline must be like 2026-09-30 23:59, got 'next Friday'"),
        (["--choose", "05-attend", "--points", "05-attend=-3"], "points must be numbers from 0 up"),
        (["--choose", "05-attend", "--points", "05-attend=nan"], "points must be numbers from 0 up"),
        (["--choose", "05-attend", "--points", "05-attend=many"], "--points takes NAME=NUMBER"),
        (["--choose", "05-attend", "--private", "nowhere"], "05_scaled_dot_product_attention.md; there is no such"),
        (["--choose", "05-attend", "--private", "."], "05_scaled_dot_product_attention.md; found no .md file"),
    ],
)  # fmt: skip
def test_what_cannot_be_assigned_is_refused_before_anything_is_written(
    arguments, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: True)
    monkeypatch.chdir(tmp_path)
    exercises = ["--exercises", str(ROOT / "exercises")]
    assert cli.main(["teach", "assign", "hw1", *arguments, *exercises]) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "hw1").exists()


@pytest.mark.parametrize(
    "name, text, said",
    [
        ("05_attention.md", "", "found 05_attention.md"),
        (
            "01_tokens_and_embeddings.md",
            "",
            "expected .* 05_scaled_dot_product_attention.md; found 01_tokens",
        ),
        ("05_scaled_dot_product_attention.md", "# Tests", "found none"),
        (
            "05_scaled_dot_product_attention.md",
            ":::{exercise} attend\n:::\n\n```{code-cell}\n:ex: {role: hidden, points: -1}\npass\n```\n",
            "attend: points must be a number from 0 up, got -1",
        ),
    ],
)
def test_private_tests_that_would_do_nothing_are_refused(name, text, said, exercises, tmp_path):
    (tmp_path / name).write_text(text)
    chapters = list(dict.fromkeys(exercise.set_name for exercise in exercises.values()))
    with pytest.raises(ValueError, match=said):
        collection.with_overlay([exercises["05-attend"]], tmp_path, chapters)


def test_the_graders_notebook_checks_its_own_tests(sheet):
    book = grader_notebook(sheet, "x", "nonce")
    names = [c.metadata["nbgrader"]["grade_id"] for c in book.cells if "nbgrader" in c.metadata]
    watching = [name for name in names if name.startswith("zz-")]
    assert watching == ["zz-05-attend-softmax-over-queries", "zz-05-table-story-not-numbers", "zz-canary"]
    assert sum(c.metadata["nbgrader"].get("points", 0) for c in book.cells if "nbgrader" in c.metadata) == 10


def test_a_verdict_names_the_message_by_its_key():
    assert verdict.judge(DESCRIBED, "s", Nothing, said())["messages"] == {"05-a": "k"}


@pytest.mark.parametrize(
    "tests",
    [
        {"zz-canary": (None, "")},
        {"zz-canary": ("AssertionError", "another")},
        {"zz-05-a-k": (None, "")},
        {"zz-05-a-k": ("Wrong", "x [other]")},
    ],
)
def test_a_check_of_the_checker_that_passes_is_tampering(tests):
    result = verdict.judge(DESCRIBED, "s", Nothing, said(**tests))
    assert "tampered" in result["flags"] and result["status"] == "look"


def test_the_name_of_an_error_is_pythons_own_or_nothing():
    result = verdict.judge(DESCRIBED, "s", Nothing, said(**{"05-a-test": ("SECRET", "SECRET")}))
    assert result["messages"] == {"05-a": "error:Error"} and "SECRET" not in json.dumps(result)


@pytest.fixture
def graded(tmp_path):
    """An assignment with one result, as files."""
    keep(tmp_path, "=김민수")
    kept.remember(tmp_path, ["=김민수"])
    (tmp_path / "assignment.json").write_text(json.dumps(DESCRIBED))
    return tmp_path


def test_the_table_opens_right_in_excel(graded):
    roster = graded / "roster.csv"
    roster.write_bytes("student,name\n박서준,박 서준\n".encode("cp949"))
    path = report.grades(graded, DESCRIBED, read_roster(roster))
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    rows = read_csv(path)
    assert path.read_text("utf-8-sig").split("\n")[1].startswith("'=김민수,")
    assert [row["학생"] for row in rows] == ["=김민수", "박서준"]
    assert rows[0]["상태"] == "확인 필요" and rows[1]["상태"] == "제출 없음"  # one is not in the roster


def test_points_by_hand_go_out_and_come_back(graded):
    sheet = by_hand.marks_sheet(graded, DESCRIBED)
    (row,) = read_csv(sheet)
    assert (
        row["답"] == "=1+1\n둘째 줄" and "'=1+1" in sheet.read_text("utf-8-sig") and row["채점 기준"] == "r"
    )
    text = sheet.read_text("utf-8-sig").replace(",05-b,,", ',05-b,"1,5",').replace("2,,", "2,좋아요,")
    sheet.write_text(text, encoding="cp949")
    assert by_hand.read_marks(graded, DESCRIBED, sheet).points == 1
    (row,) = read_csv(report.grades(graded, DESCRIBED))
    assert (row["합계"], row["상태"]) == ("1.5", "정상")
    sheet.write_text(text.replace("1,5", "7"), encoding="cp949")
    with pytest.raises(ValueError, match="row 2: points must be 0 to 2, or - to withdraw them, got '7'"):
        by_hand.read_marks(graded, DESCRIBED, sheet)


def test_what_is_typed_into_the_table_of_points_outlives_another_run(graded):
    sheet = by_hand.marks_sheet(graded, DESCRIBED)
    text = sheet.read_text("utf-8-sig").replace(",05-b,,", ",05-b,2,").replace("2,2,,", "2,2,좋아요,")
    sheet.write_text(text, encoding="utf-8-sig")
    (row,) = read_csv(by_hand.marks_sheet(graded, DESCRIBED))
    assert (row["점수"], row["의견"]) == ("2", "좋아요")
    (row,) = read_csv(report.grades(graded, DESCRIBED))
    assert row["상태"] == "수동 채점 남음"  # typed, but not handed over
    assert by_hand.read_marks(graded, DESCRIBED, sheet).points == 1


def test_feedback_has_the_message_and_nothing_that_was_printed(graded):
    (page,) = feedback(graded, DESCRIBED)
    text = page.read_text("utf-8")
    assert (
        "틀렸습니다." in text and "&#x27;" not in text and "x [k]" not in text and '<html lang="ko">' in text
    )


def test_without_a_sandbox_nothing_is_graded(tmp_path, monkeypatch, capsys):
    (tmp_path / "assignment.json").write_text(json.dumps(DESCRIBED))
    monkeypatch.setattr("tutorial_lib.teaching.sandbox.missing", lambda: "no bubblewrap: say --unsafe")
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: True)
    assert cli.main(["teach", "grade", str(tmp_path), str(tmp_path)]) == 2
    assert capsys.readouterr().err == "no bubblewrap: say --unsafe\n"


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_page_for_instructors_explains_every_flag(language):
    text = (ROOT / "book" / language / "instructors.md").read_text(encoding="utf-8")
    named = {*verdict.FOR_HUMANS, "unchanged", "nothing-handed-in"}
    for path in (ROOT / "src" / "tutorial_lib" / "teaching").glob("*.py"):
        code = path.read_text(encoding="utf-8")
        named |= set(re.findall(r'(?:flag|flags\.append|notes\.append)\("([a-z]+(?:-[a-z]+)+)"\)', code))
    explained = set(re.findall(r"`([a-z-]+)(?::\.\.\.)?`", text))
    assert len(named) > 20 and named <= explained, sorted(named - explained)


def test_the_commands_say_what_is_wrong(tmp_path, capsys):
    assert cli.main(["teach", "marks", str(tmp_path)]) == 2
    assert "holds no assignment" in capsys.readouterr().err
    assert cli.main(["teach", "list", "--language", "ko"]) == 0
    listed = capsys.readouterr().out
    assert "05-attend" in listed and "마스크를 쓰는 어텐션" in listed
    with pytest.raises(ValueError, match="must be Latin letters"):
        assign.build(tmp_path / "과제", ROOT / "exercises", Wanted(), language="ko", title="")


@pytest.fixture
def course(tmp_path, sheet, release, monkeypatch):
    """An assignment whose engine is a stand-in: full points for what holds 'right', a stop at 'stop'."""
    from tutorial_lib.teaching import grade

    target = tmp_path / "hw1"
    path = target / "grader" / "release" / "hw1" / "hw1.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(release))
    described = {
        "name": "hw1",
        "title": "과제 1",
        "language": "ko",
        "deadline": "",
        "nonce": "n",
        "exercises": [assign.describe(sheet, exercise) for exercise in sheet.exercises],
    }
    (target / "assignment.json").write_text(json.dumps(described))
    calls = []

    def run(target, name, key, found, environment):
        calls.append(key)
        source = "".join(cell["source"] for cell in found.book["cells"])
        if "raise a fault of ours" in source:
            raise RuntimeError("ours")
        if "stop" in source:
            return {"success": False, "log": "DeadKernelError"}
        return {
            "success": True,
            "tests": {
                "05-attend-hidden": {"ran": True, "error": None, "text": ""},
                "zz-canary": {"ran": True, "error": "AssertionError", "text": "n"},
            },
            "scores": {"05-attend-hidden": 4.0 * ("right" in source)},
            "log": "",
        }

    monkeypatch.setattr(grade, "run", run)
    monkeypatch.setattr(grade.sandbox, "missing", lambda: None)
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: True)  # nbgrader is not needed
    submissions = tmp_path / "submissions"
    submissions.mkdir()

    def hand_in(student, **answers):
        (submissions / f"{student}.ipynb").write_text(json.dumps(shop_book(answers)))

    def shop_book(answers):
        workshop = Workshop(json.loads(json.dumps(student_notebook(sheet, "x"))), {e: Solved for e in NAMES})
        return workshop.book(**answers)

    return target, submissions, hand_in, calls


class Solved:
    answer = "attend = right = 1"


def test_a_run_goes_on_where_it_stopped_and_grades_only_what_changed(course):
    from tutorial_lib.teaching.grade import grade

    target, submissions, hand_in, calls = course
    hand_in("a", table="# 1")
    hand_in("b", table="# 2")
    first = grade(target, submissions)
    assert [r["points"]["05-attend"] for r in first] == [4, 4] and len(calls) == 2
    hand_in("b", table="# 3")
    (submissions / "c.txt").write_text("no notebook")
    assert len(grade(target, submissions)) == 3 and len(calls) == 3
    assert len(grade(target, submissions, again=True)) == 3 and len(calls) == 5
    half = target / "grader" / "results" / f"{first[0]['key']}.json"
    half.rename(half.with_suffix(".part"))  # killed while writing
    assert len(grade(target, submissions)) == 3 and len(calls) == 6


def test_two_runs_do_not_grade_the_same_assignment_at_once(course):
    from tutorial_lib.teaching.grade import grade
    from tutorial_lib.teaching.process import only_run

    target, submissions, hand_in, calls = course
    hand_in("a")
    with only_run(target / "grader") as folder:
        assert folder.is_dir()
        with pytest.raises(ValueError, match="is being graded by another run"):
            grade(target, submissions)
    assert not folder.exists() and calls == []
    assert len(grade(target, submissions)) == 1


def test_a_run_removes_what_a_killed_one_left(course, tmp_path):
    from tutorial_lib.teaching.process import only_run

    target, *_ = course
    left = tmp_path / "teach-left"
    (left / "k1").mkdir(parents=True)
    (target / "grader" / "running").write_text(str(left))
    with only_run(target / "grader"):
        assert not left.exists()


def test_what_is_no_longer_handed_in_is_in_no_table_and_is_told(course, capsys):
    target, submissions, hand_in, _ = course
    for student in ("a", "kim_hw1"):
        hand_in(student)
    assert cli.main(["teach", "grade", str(target), str(submissions), "--unsafe"]) == 0
    (submissions / "kim_hw1.ipynb").rename(submissions / "20260003.ipynb")
    assert cli.main(["teach", "grade", str(target), str(submissions)]) == 0
    assert (
        "1 graded before are no longer among the submissions and in no table: kim_hw1"
        in capsys.readouterr().out
    )
    rows = read_csv(target / "grades.csv")
    assert [row["학생"] for row in rows] == ["20260003", "a"]
    assert len(list((target / "grader" / "results").glob("*.json"))) == 3


def test_who_is_not_in_the_roster_is_to_be_looked_at_and_unsafe_grading_shows(course, capsys):
    target, submissions, hand_in, _ = course
    for student in ("a", "kim_hw1"):
        hand_in(student)
    roster = target.parent / "roster.csv"
    roster.write_text("student\na\n")
    arguments = ["teach", "grade", str(target), str(submissions), "--roster", str(roster), "--unsafe"]
    assert cli.main(arguments) == 0
    assert "2 graded; to be looked at: kim_hw1\n" in capsys.readouterr().out
    rows = read_csv(target / "grades.csv")
    assert [row["표시"] for row in rows] == ["without-sandbox", "without-sandbox not-in-roster"]


def test_answers_in_single_letters_are_put_together(course):
    from tutorial_lib.teaching.grade import grade

    target, submissions, hand_in, _ = course
    hand_in("a", importance=unicodedata.normalize("NFD", "값 벡터"))
    (row,) = grade(target, submissions)
    assert row["answers"]["05-importance"] == "값 벡터"


def test_a_fault_of_ours_costs_nobody_else_a_grade(course):
    from tutorial_lib.teaching.grade import grade

    target, submissions, hand_in, _ = course
    hand_in("a", table="# raise a fault of ours")
    hand_in("b")
    bad, good = grade(target, submissions)
    assert (bad["status"], bad["flags"]) == ("look", ["grader-failed"]) and "ours" in bad["log"]
    assert good["points"]["05-attend"] == 4
    rows = read_csv(report.grades(target, assign.load(target)))
    assert [row["학생"] for row in rows] == ["a", "b"] and rows[0]["상태"] == "확인 필요"


def test_an_answer_that_stops_the_kernel_does_not_take_the_others_with_it(course):
    from tutorial_lib.teaching.grade import grade

    target, submissions, hand_in, _ = course
    hand_in("a", table="# stop")
    (row,) = grade(target, submissions)
    assert row["points"]["05-attend"] == 4 and row["status"] == "look"
    assert {"graded-one-by-one", "stopped:05-table"} <= set(row["flags"])


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize(
    "key,word",
    [("wrong-dtype", "another_kind"), ("unanswered", "unanswered"), ("unanswered-part", "unanswered")],
)
def test_feedback_has_a_whole_sentence_where_a_message_has_gaps(language, key, word):
    words = REPORT[language]
    exercise = {"name": "05-attend", "manual": False, "points": 6, "messages": {}}
    result = {"points": {"05-attend": 0.0}, "messages": {"05-attend": key}}
    said = comment({"language": language}, exercise, result, {}, words)
    assert said == ("0", words[word]) and len(words[word]) > 10


def test_the_table_of_kinds_does_not_pass_over_a_fault_of_the_grader():
    from kinds import faults

    (kind,) = (kind for kind in KINDS if kind.name == "fork bomb")
    result = {"status": "look", "flags": ["grader-failed"], "points": {"05-attend": 0.0, "05-table": 0.0}}
    assert faults(kind, {**result, "flags": [*kind.flags]}) == []
    (found,) = faults(kind, {**result, "flags": [*kind.flags, "grader-failed"], "log": "FileNotFoundError"})
    assert "the grader itself failed: FileNotFoundError" in found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists a process's threads there")
def test_what_ends_while_the_watch_looks_is_no_error(tmp_path, monkeypatch):
    """Processes and files come and go by the hundred while a submission is watched."""
    from tutorial_lib.teaching import process

    assert process.children(2**22 + 1) == []  # larger than any process id
    (tmp_path / "socket").write_bytes(b"12345")
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: ["9999999", *real(folder), "8888888"])
    assert process.shared(tmp_path) == 5
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.pid in process.children(os.getpid())
    child.communicate(b"\n")
