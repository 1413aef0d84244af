"""The roster: who is in the course, who is late, and cells that Excel must not run."""

from datetime import datetime

import pytest

from tutorial_lib.teaching import report
from tutorial_lib.teaching.roster import Person, find_person, lateness, read_roster, read_time
from tutorial_lib.teaching.tables import read_csv, safe, write_csv


@pytest.mark.parametrize(
    "text, means",
    [
        ("2026-09-30 23:59", datetime(2026, 9, 30, 23, 59)),
        ("2026-09-30T08:05:30", datetime(2026, 9, 30, 8, 5, 30)),
        ("2026. 9. 30. 오후 11:59", datetime(2026, 9, 30, 23, 59)),
        ("2026년 9월 30일 오전 12:10", datetime(2026, 9, 30, 0, 10)),
        ("2026/9/30 1:05 PM", datetime(2026, 9, 30, 13, 5)),
        ("2026-09-30", datetime(2026, 9, 30)),
        ("30 September, midnight", None),
        ("2026-09-31 10:00", None),
        ("", None),
    ],
)
def test_times_are_read_as_excel_and_people_write_them(text, means):
    assert read_time(text) == means


def test_a_deadline_without_a_time_is_the_end_of_that_day():
    assert read_time("2026-09-30", end_of_day=True) == datetime(2026, 9, 30, 23, 59, 59)
    assert read_time("2026-09-30 18:00", end_of_day=True) == datetime(2026, 9, 30, 18, 0, 59)


@pytest.mark.parametrize(
    "handed_in, en, ko",
    [
        ("2026-09-30 23:59:58", "", ""),
        ("2026-10-01 00:00:20", "1 min", "1분"),
        ("2026-10-02 01:04:59", "1 d 1 h 5 min", "1일 1시간 5분"),
        ("2026-10-01 23:59:59", "1 d", "1일"),
    ],
)
def test_lateness_in_words(handed_in, en, ko):
    person = Person("1", "김", read_time(handed_in))
    for language, words in (("en", en), ("ko", ko)):
        assert lateness("2026-09-30 23:59", person, False, language) == words


def test_without_a_time_the_platforms_word_counts():
    assert lateness("", None, True, "en") == "late" and lateness("", None, False, "en") == ""
    assert lateness("next week", Person("1", "", datetime(2030, 1, 1)), False, "ko") == ""
    assert lateness("2026-09-30", Person("1"), True, "ko") == "지각"


def test_a_submission_finds_its_line_by_number_or_by_a_name_that_only_one_has():
    people = [Person("2026001", "홍길동"), Person("2026002", "김민수"), Person("2026003", "김민수")]
    assert find_person(people, "2026002") is people[1]
    assert find_person(people, "홍길동") is people[0]
    assert find_person(people, "김민수") is None and find_person(people, "이서연") is None


def test_a_roster_comes_from_excel_in_either_language(tmp_path):
    path = tmp_path / "roster.csv"
    path.write_bytes(
        "학번;이름;제출 시각\n2026001; 홍길동 ;2026-10-01 00:10\n\n2026002;김민수;\n".encode("cp949")
    )
    assert read_roster(path) == [
        Person("2026001", "홍길동", datetime(2026, 10, 1, 0, 10)),
        Person("2026002", "김민수", None),
    ]
    path.write_text("student,handed_in\n1,yesterday\n")
    with pytest.raises(ValueError, match="row 2: handed_in must be like 2026-09-30 23:59, got 'yesterday'"):
        read_roster(path)
    path.write_text("who\n1\n")
    with pytest.raises(ValueError, match="needs a column 'student', it has who"):
        read_roster(path)


NASTY = ["=1+1", "@SUM(A1)", "+1", "-1", "\t=1", "\r=1", "\n=1", "＝1+1", "＠x"]


@pytest.mark.parametrize("name", NASTY)
def test_no_text_is_a_formula(name, tmp_path):
    assert safe(name) == "'" + name and safe(-1.5) == -1.5
    write_csv(tmp_path / "x.csv", [["name", "points"], [name, -1]])
    text = (tmp_path / "x.csv").read_bytes().decode("utf-8-sig")
    assert text.split("\r\n")[1].lstrip('"').startswith("'") and text.rstrip().endswith(",-1")


def test_grades_tell_the_late_the_missing_and_the_unknown(tmp_path):
    described = {
        "name": "hw1", "title": "과제 1", "language": "ko", "deadline": "2026-09-30 23:59",
        "exercises": [{"name": "05-a", "title": "가", "points": 4, "manual": False}],
    }  # fmt: skip
    (tmp_path / "grader" / "results").mkdir(parents=True)
    for number, (student, flags) in enumerate(
        [("홍길동", []), ("@mallory", ["late"]), ("김민수", ["extra-cells"])]
    ):
        text = report.json.dumps(
            {"student": student, "key": f"s{number}", "status": "ok", "flags": flags, "answers": {},
             "points": {"05-a": 4}, "seconds": 1}
        )  # fmt: skip
        (tmp_path / "grader" / "results" / f"{number}.json").write_text(text)
    people = [Person("1", "홍길동", datetime(2026, 10, 1, 1, 0)), Person("2", "이서연")]
    people += [Person("3", "김민수"), Person("4", "김민수")]
    path = report.grades(tmp_path, described, people)
    assert path.read_bytes()[:3] == b"\xef\xbb\xbf"
    rows = {row["학생"]: row for row in read_csv(path)}
    assert set(rows) == {"1", "2", "3", "4", "'@mallory", "김민수"}
    assert (rows["1"]["이름"], rows["1"]["지각"], rows["1"]["표시"]) == ("홍길동", "1시간 1분", "")
    assert (rows["'@mallory"]["지각"], rows["'@mallory"]["표시"]) == ("지각", "not-in-roster")
    assert rows["김민수"]["표시"] == "extra-cells not-in-roster"
    assert (rows["3"]["상태"], rows["3"]["표시"]) == ("확인 필요", "same-name")
    assert (rows["2"]["상태"], rows["2"]["합계"]) == ("제출 없음", "0")
