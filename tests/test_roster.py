"""The roster: who is in the course, who is late, and cells that Excel must not run."""

from datetime import datetime

import pytest

from tutorial_lib.teaching import kept, report
from tutorial_lib.teaching.roster import Person, candidates, lateness, read_roster, read_time
from tutorial_lib.teaching.tables import as_typed, read_csv, safe, write_csv


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


PEOPLE = [
    Person("2026001", "홍길동"),
    Person("2026002", "김민수"),
    Person("2026003", "김민수"),
    Person("2026004", "Park Minsu"),
    Person("7", "학생7"),
]


@pytest.mark.parametrize(
    "file, fits",
    [
        ("2026002", ["2026002"]),
        ("홍길동", ["2026001"]),
        ("2026001 (1)", ["2026001"]),
        ("홍길동_hw1 (2)", ["2026001"]),
        ("과제1_홍길동", ["2026001"]),
        ("2026003_김민수_hw1", ["2026003"]),
        ("2026001홍길동", ["2026001"]),
        ("hw1-2026004", ["2026004"]),
        ("park_minsu_hw1", ["2026004"]),
        ("parkminsu", ["2026004"]),
        ("7_hw1", ["7"]),
        ("학생7", ["7"]),
        ("김민수", ["2026002", "2026003"]),  # two have this name
        ("2026001_Park Minsu", ["2026001", "2026004"]),  # a contradiction
        ("12026001", []),
        ("홍길동전", []),
        ("hw 7", []),
        ("이서연", []),
    ],
)
def test_a_submission_finds_its_line_by_number_or_name_as_words_of_its_own(file, fits):
    assert [person.student for person in candidates(PEOPLE, file)] == fits


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


def test_a_table_that_is_none_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"there is no file .*roster\.csv"):
        read_roster(tmp_path / "roster.csv")
    (tmp_path / "roster.csv").write_text("")
    with pytest.raises(ValueError, match=r"roster\.csv is empty"):
        read_roster(tmp_path / "roster.csv")


NASTY = ["=1+1", "@SUM(A1)", "+1", "-1", "\t=1", "\r=1", "\n=1", "＝1+1", "＠x"]


@pytest.mark.parametrize("name", NASTY)
def test_no_text_is_a_formula(name, tmp_path):
    assert safe(name) == "'" + name and safe(-1.5) == -1.5
    write_csv(tmp_path / "x.csv", [["name", "points"], [name, -1]])
    text = (tmp_path / "x.csv").read_bytes().decode("utf-8-sig")
    assert text.split("\r\n")[1].lstrip('"').startswith("'") and text.rstrip().endswith(",-1")


@pytest.mark.parametrize("text", [*NASTY, "'=1", "''=1", "'quoted'", "=이유가 하나뿐", "", "'"])
def test_what_is_made_safe_is_read_as_it_was(text, tmp_path):
    assert as_typed(safe(text)) == text
    write_csv(tmp_path / "x.csv", [["name", "text"], ["x", text]])
    assert read_csv(tmp_path / "x.csv")[0]["text"] == text.strip() or text != text.strip()


def store(target, *handed_in, points=4):
    for student, flags in handed_in:
        result = {"student": student, "key": kept.student_key(student), "flags": flags, "answers": {}}
        kept.store(target, result | {"points": {"05-a": points}, "seconds": 1})
    kept.remember(target, [student for student, _ in handed_in])


def test_grades_tell_the_late_the_missing_and_the_unknown(tmp_path):
    described = {
        "name": "hw1", "title": "과제 1", "language": "ko", "deadline": "2026-09-30 23:59",
        "exercises": [{"name": "05-a", "title": "가", "points": 4, "manual": False}],
    }  # fmt: skip
    store(tmp_path, ("홍길동", []), ("@mallory", ["late"]), ("김민수", ["extra-cells"]))
    people = [Person("1", "홍길동", datetime(2026, 10, 1, 1, 0)), Person("2", "이서연")]
    people += [Person("3", "김민수"), Person("4", "김민수")]
    path = report.grades(tmp_path, described, people)
    assert path.read_bytes()[:3] == b"\xef\xbb\xbf"
    rows = {row["학생"]: row for row in read_csv(path)}
    assert set(rows) == {"1", "2", "3", "4", "@mallory", "김민수"}
    assert (rows["1"]["이름"], rows["1"]["지각"], rows["1"]["표시"]) == ("홍길동", "1시간 1분", "")
    assert (rows["@mallory"]["지각"], rows["@mallory"]["표시"]) == ("지각", "not-in-roster")
    assert rows["김민수"]["표시"] == "extra-cells not-in-roster" and rows["김민수"]["상태"] == "확인 필요"
    assert report.to_look_at(tmp_path, people) == ["3", "4", "@mallory", "김민수"]
    assert (rows["3"]["상태"], rows["3"]["표시"]) == ("확인 필요", "same-name")
    assert (rows["2"]["상태"], rows["2"]["합계"]) == ("제출 없음", "0")


def test_two_files_of_one_person_are_both_shown_and_put_before_a_human(tmp_path):
    described = {
        "language": "en", "deadline": "",
        "exercises": [{"name": "05-a", "title": "A", "points": 4, "manual": False}],
    }  # fmt: skip
    store(tmp_path, ("20260001", []), ("20260018", []), ("20260018 (1)", []), ("홍길동", []), points=7.33329)
    people = [Person("20260001", "홍길동"), Person("20260018", "송두번"), Person("20260019", "한결석")]
    path = report.grades(tmp_path, described, people)
    rows = read_csv(path)
    assert [(row["student"], row["handed in as"], row["flags"]) for row in rows] == [
        ("20260001", "20260001", "handed-in-twice"),
        ("20260001", "홍길동", "handed-in-twice"),
        ("20260018", "20260018", "handed-in-twice"),
        ("20260018", "20260018 (1)", "handed-in-twice"),
        ("20260019", "", "nothing-handed-in"),
    ]
    assert {row["status"] for row in rows[:4]} == {"look at it"}
    assert report.to_look_at(tmp_path, people) == ["20260001", "홍길동", "20260018", "20260018 (1)"]
    assert {line.count(",") for line in path.read_text("utf-8-sig").splitlines()} == {11}
    assert rows[0]["total"] == "7.3333"
