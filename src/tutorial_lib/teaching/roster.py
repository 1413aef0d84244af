"""Who is in the course, and when each handed in: what the learning platform knows and files do not."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tutorial_lib.teaching.tables import read_csv

COLUMNS = {"학생": "student", "학번": "student", "이름": "name", "제출 시각": "handed_in"}
TIME = re.compile(
    r"(\d{4})[-./년 ]+(\d{1,2})[-./월 ]+(\d{1,2})[일.T ]*"
    r"(?:(오전|오후)? *(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)? *([AaPp][Mm])?)?$"
)


@dataclass(frozen=True)
class Person:
    """One line of the roster."""

    student: str
    name: str = ""
    handed_in: datetime | None = None


def read_roster(path: Path) -> list[Person]:
    """The lines of a roster: student, and if there are such columns name and handed_in.

    Raises:
        ValueError: if the column student is missing, or a time cannot be read.
    """
    people = []
    for line, row in enumerate(read_csv(path), start=2):
        row = {COLUMNS.get(key, key): unicodedata.normalize("NFC", value) for key, value in row.items()}
        if "student" not in row:
            raise ValueError(f"{path} needs a column 'student', it has {', '.join(row)}")
        text = row.get("handed_in", "")
        when = read_time(text)
        if text and when is None:
            raise ValueError(f"{path}, row {line}: handed_in must be like 2026-09-30 23:59, got {text!r}")
        people.append(Person(row["student"], row.get("name", ""), when))
    return people


def candidates(people: list[Person], student: str) -> list[Person]:
    """Whose submission this may be, by the name of the file: one person if it is clear, several if not.

    The number or the name may be all of the file's name or words in it, as in `20260001_홍길동_hw1`.
    A number decides between people of one name; a number and a name that contradict each other do not.
    """
    exact = [person for person in people if person.student == student]
    if exact:
        return exact
    text = spaced(student)
    by_number = [person for person in people if names_number(text, spaced(person.student))]
    by_name = [person for person in people if names_person(text, spaced(person.name))]
    agreeing = [person for person in by_number if person in by_name]
    return agreeing or [*by_number, *by_name]


def spaced(text: str) -> str:
    """The words of a name with one space between them; a number and Hangul beside it are two words."""
    text = re.sub(r"(?<=\d)(?=[가-힣])|(?<=[가-힣])(?=\d)", " ", text.casefold())
    return " ".join(re.findall(r"[^\W_]+", text))


def names_number(text: str, number: str) -> bool:
    """Whether a student's number is in a file's name. A short one only at its beginning: think of `hw 1`."""
    if not number:
        return False
    return f"{text} ".startswith(f"{number} ") or (len(number) > 3 and f" {number} " in f" {text} ")


def names_person(text: str, name: str) -> bool:
    """Whether a person's name is in a file's name, also written without spaces as Canvas does it."""
    return bool(name) and (f" {name} " in f" {text} " or name.replace(" ", "") in text.split())


def read_time(text: str, *, end_of_day: bool = False) -> datetime | None:
    """A time such as 2026-09-30 23:59 or 2026. 9. 30. 오후 11:59; None if the text is no such time.

    Args:
        end_of_day: what a date without a time means: its last minute, or its first.
    """
    match = TIME.match(text.strip())
    if not match:
        return None
    year, month, day, half, hour, minute, second, half_after = match.groups()
    hour = int(hour) if hour else 23 if end_of_day else 0
    half = {"오전": "am", "오후": "pm"}.get(half, (half_after or "").lower())
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    if minute is None:
        minute, second = ("59", "59") if end_of_day else ("0", "0")
    elif second is None:
        second = "59" if end_of_day else "0"  # due at 23:59 means until that minute is over
    try:
        return datetime(int(year), int(month), int(day), hour, int(minute), int(second))
    except ValueError:
        return None


def lateness(deadline: str, person: Person | None, flagged: bool, language: str) -> str:
    """How late, as '1 d 2 h 5 min'; '' for in time or unknown; a plain yes where only the platform's word is known."""
    due = read_time(deadline, end_of_day=True)
    yes = {"en": "late", "ko": "지각"}[language]
    if due is None or person is None or person.handed_in is None:
        return yes if flagged else ""
    if person.handed_in <= due:
        return ""
    return in_words(person.handed_in - due, language)


def in_words(gap: timedelta, language: str) -> str:
    """Days, hours and begun minutes."""
    minutes = max(1, -(-int(gap.total_seconds()) // 60))
    parts = (minutes // 1440, minutes // 60 % 24, minutes % 60)
    units = {"en": (" d", " h", " min"), "ko": ("일", "시간", "분")}[language]
    return " ".join(f"{part}{unit}" for part, unit in zip(parts, units, strict=True) if part)
