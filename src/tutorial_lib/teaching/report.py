"""The table of grades: a row for each submission, and one for each person who handed in nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tutorial_lib.teaching import verdict
from tutorial_lib.teaching.by_hand import given, marked
from tutorial_lib.teaching.kept import current
from tutorial_lib.teaching.roster import Person, candidates, lateness
from tutorial_lib.teaching.tables import write_csv
from tutorial_lib.teaching.words import REPORT


@dataclass(frozen=True)
class Row:
    """A submission, a person of the roster, or the two together."""

    person: Person | None
    result: dict | None
    flags: tuple[str, ...]
    status: str

    @property
    def student(self) -> str:
        return self.person.student if self.person else self.result["student"]

    @property
    def shown(self) -> str:
        """What to look for: the name of the file, or of the person where there is none."""
        return self.result["student"] if self.result else self.student


def rows(target: Path, roster: list[Person] | None = None) -> list[Row]:
    """Submissions and people side by side, in the order of the students; all files of one stand together."""
    results = current(target)
    fitting = [candidates(roster or [], result["student"]) for result in results]
    owners = [people[0] if len(people) == 1 else None for people in fitting]
    files, found = Counter(owner for owner in owners if owner), []
    for result, owner in zip(results, owners, strict=True):
        flags = list(result["flags"])
        if roster and not owner:
            flags.append("not-in-roster")
        if owner and files[owner] > 1:
            flags.append("handed-in-twice")
        found.append(Row(owner, result, tuple(flags), verdict.status(flags)))
    unsure = {person for people in fitting if len(people) > 1 for person in people}
    for person in dict.fromkeys(roster or []):
        if person not in files:
            flag = "same-name" if person in unsure else "nothing-handed-in"
            found.append(Row(person, None, (flag,), verdict.status([flag])))
    return sorted(found, key=lambda row: (row.student, row.shown))


def to_look_at(target: Path, roster: list[Person] | None = None) -> list[str]:
    """The names that the table of grades puts before a human."""
    return [row.shown for row in rows(target, roster) if row.status == "look"]


def grades(target: Path, described: dict, roster: list[Person] | None = None) -> Path:
    """Write `grades.csv`."""
    language, exercises = described["language"], described["exercises"]
    words, hand = REPORT[language], given(target)
    best = sum(e["points"] for e in exercises)
    names = ["student", "name", "file", "status", "flags", "late", "auto", "manual", "total", "of"]
    table = [
        [*(words[n] for n in names), *(f"{e['name']} {e['title']}" for e in exercises), words["seconds"]]
    ]
    for row in rows(target, roster):
        result, person = row.result, row.person
        who = [row.student, person.name if person else "", result["student"] if result else ""]
        late = lateness(described["deadline"], person, "late" in row.flags, language) if result else ""
        flags = " ".join(flag for flag in row.flags if flag != "late")
        if result is None:
            table.append([*who, words[row.status], flags, late, 0, 0, 0, best, *[""] * (len(exercises) + 1)])
            continue
        auto, manual, waiting = marked(described, result, hand)
        state = words["waiting"] if waiting and row.status == "ok" else words[row.status]
        own = hand.get(result["key"], {})
        each = [
            own.get(e["name"], {}).get("points", "") if e["manual"] else result["points"][e["name"]]
            for e in exercises
        ]
        total = round(auto + manual, 4)
        table.append([*who, state, flags, late, auto, manual, total, best, *each, result["seconds"]])
    write_csv(target / "grades.csv", table)
    return target / "grades.csv"
