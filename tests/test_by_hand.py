"""Points by hand: they follow a file that was renamed, and nothing that was typed is lost."""

import csv
import json

import pytest
from stored import DESCRIBED, keep

from tutorial_lib.teaching import by_hand, cli, kept, report
from tutorial_lib.teaching.tables import read_csv


def fill(target, **typed):
    """Type points and comments, 'points comment' by student, into the table."""
    sheet = by_hand.marks_sheet(target, DESCRIBED)
    rows = list(csv.reader(sheet.open(encoding="utf-8-sig", newline="")))
    for row in rows[1:]:
        if row[0] in typed:
            row[2], _, row[4] = typed[row[0]].partition(" ")
    with sheet.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows(rows)
    return sheet


def hand_in(target, *students, **contents):
    """Grade these; each has content of its own unless it is given."""
    for student in students:
        keep(target, student, contents.get(student, f"content of {student}"))
    kept.remember(target, students)
    by_hand.carry_over(target)


def by_student(path):
    return {row["학생"]: row for row in read_csv(path)}


def test_points_follow_a_file_that_was_renamed_whether_handed_over_or_only_typed(tmp_path):
    hand_in(tmp_path, "kim_hw1", "lee_hw1")
    sheet = fill(tmp_path, kim_hw1="2 gut", lee_hw1="1")
    assert by_hand.read_marks(tmp_path, DESCRIBED, sheet) == by_hand.Taken(2, 0, 0)
    fill(tmp_path, lee_hw1="1 typed later")
    hand_in(tmp_path, "1", "2", **{"1": "content of kim_hw1", "2": "content of lee_hw1"})
    rows = by_student(by_hand.marks_sheet(tmp_path, DESCRIBED))
    assert {name: (row["점수"], row["의견"]) for name, row in rows.items()} == {
        "1": ("2", "gut"),
        "2": ("1", "typed later"),
    }
    assert by_hand.strays(tmp_path, DESCRIBED) == []
    rows = by_student(report.grades(tmp_path, DESCRIBED))
    assert {name: row["수동 채점"] for name, row in rows.items()} == {"1": "2.0", "2": "1.0"}


def test_points_of_a_file_that_is_gone_stay_in_the_table_and_count_for_nobody(tmp_path):
    hand_in(tmp_path, "kim", "lee")
    by_hand.read_marks(tmp_path, DESCRIBED, fill(tmp_path, kim="2 good"))
    hand_in(tmp_path, "lee", "park")
    sheet = by_hand.marks_sheet(tmp_path, DESCRIBED)
    assert [row["학생"] for row in read_csv(sheet)] == ["lee", "park", "kim"]
    assert by_student(sheet)["kim"]["의견"] == "good" and by_hand.strays(tmp_path, DESCRIBED) == ["kim"]
    assert set(by_student(report.grades(tmp_path, DESCRIBED))) == {"lee", "park"}
    assert by_hand.read_marks(tmp_path, DESCRIBED, sheet).points == 1  # an old row is no fault
    hand_in(tmp_path, "kim", "lee", "park")
    assert by_student(report.grades(tmp_path, DESCRIBED))["kim"]["수동 채점"] == "2.0"


def test_points_of_a_file_that_is_gone_can_be_withdrawn_for_good(tmp_path):
    hand_in(tmp_path, "kim", "lee")
    by_hand.read_marks(tmp_path, DESCRIBED, fill(tmp_path, kim="2"))
    hand_in(tmp_path, "lee")
    by_hand.read_marks(tmp_path, DESCRIBED, fill(tmp_path, kim="-"))
    assert by_hand.strays(tmp_path, DESCRIBED) == []
    assert set(by_student(by_hand.marks_sheet(tmp_path, DESCRIBED))) == {"lee"}


def test_where_two_files_are_the_same_nobodys_points_move(tmp_path):
    hand_in(tmp_path, "kim", "lee", kim="same", lee="same")
    by_hand.read_marks(tmp_path, DESCRIBED, fill(tmp_path, kim="2", lee="1"))
    hand_in(tmp_path, "park", park="same")
    assert by_hand.strays(tmp_path, DESCRIBED) == ["kim", "lee"]
    assert by_student(report.grades(tmp_path, DESCRIBED))["park"]["수동 채점"] == "0.0"


def test_an_empty_place_keeps_earlier_points_and_a_dash_withdraws_them(tmp_path):
    hand_in(tmp_path, "kim")
    by_hand.read_marks(tmp_path, DESCRIBED, fill(tmp_path, kim="2"))
    assert by_hand.read_marks(tmp_path, DESCRIBED, fill(tmp_path, kim="")) == by_hand.Taken(0, 0, 1)
    assert by_student(report.grades(tmp_path, DESCRIBED))["kim"]["수동 채점"] == "2.0"
    assert by_hand.read_marks(tmp_path, DESCRIBED, fill(tmp_path, kim="-")) == by_hand.Taken(0, 1, 0)
    assert by_student(report.grades(tmp_path, DESCRIBED))["kim"]["상태"] == "수동 채점 남음"


def test_a_comment_that_looks_like_a_formula_comes_back_as_it_was_typed(tmp_path):
    hand_in(tmp_path, "kim")
    sheet = fill(tmp_path, kim="1 =이유가 하나뿐")
    for _ in range(2):
        by_hand.read_marks(tmp_path, DESCRIBED, sheet)
        sheet = by_hand.marks_sheet(tmp_path, DESCRIBED)
    assert by_hand.given(tmp_path)[kept.student_key("kim")]["05-b"]["comment"] == "=이유가 하나뿐"
    assert "'=이유가" in sheet.read_text("utf-8-sig") and "''=" not in sheet.read_text("utf-8-sig")


def test_the_command_tells_what_became_of_the_points(tmp_path, capsys):
    (tmp_path / "assignment.json").write_text(json.dumps(DESCRIBED))
    hand_in(tmp_path, "kim", "lee")
    by_hand.read_marks(tmp_path, DESCRIBED, fill(tmp_path, kim="2", lee="1"))
    hand_in(tmp_path, "lee")
    sheet = str(fill(tmp_path, lee=""))
    assert cli.main(["teach", "marks", str(tmp_path), "--filled", sheet]) == 0
    said = capsys.readouterr().out
    assert "1 points taken over" in said and "1 places are empty" in said
    assert "points typed in 1 rows belong to names no longer among the submissions (kim)" in said


@pytest.mark.parametrize(
    "command, said",
    [
        (["feedback"], "has been graded yet: tutorial-lib teach grade"),
        (["marks"], "has been graded yet"),
        (["marks", "--filled", "nowhere/by_hand.csv"], "there is no file nowhere/by_hand.csv"),
    ],
)
def test_a_command_that_comes_too_early_says_so(command, said, tmp_path, capsys):
    (tmp_path / "assignment.json").write_text(json.dumps(DESCRIBED))
    if "--filled" in command:
        kept.remember(tmp_path, [])
    assert cli.main(["teach", command[0], str(tmp_path), *command[1:]]) == 2
    assert said in capsys.readouterr().err
