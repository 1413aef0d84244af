"""`tutorial-lib teach ...`: one command for each thing that an instructor does."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from pathlib import Path

from tutorial_lib.teaching import assign, by_hand, collection, kept, report
from tutorial_lib.teaching.checking import digest
from tutorial_lib.teaching.feedback import feedback
from tutorial_lib.teaching.notebooks import grade_name
from tutorial_lib.teaching.roster import Person, read_roster, read_time
from tutorial_lib.teaching.source import KINDS
from tutorial_lib.teaching.words import number


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def table(rows: list[list[str]]) -> None:
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        say("  ".join(cell + " " * (w - width(cell)) for cell, w in zip(row, widths, strict=True)).rstrip())


def width(text: str) -> int:
    """Columns on a terminal: a Hangul syllable takes two."""
    return sum(2 if "ᄀ" <= char <= "ᇿ" or "⺀" <= char <= "￦" else 1 for char in text)


def show_list(arguments) -> None:
    folder = collection.find_exercises(arguments.exercises)
    rows = [["name", "kind", "difficulty", "minutes", "points", "title"]]
    for source in collection.read_all(folder, arguments.language):
        for e in source.exercises:
            facts = [e.kind, str(e.difficulty), str(e.minutes), number(e.points)]
            rows.append([grade_name(e), *facts, e.title])
    table(rows)


def make_assignment(arguments) -> None:
    worth = {}
    for text in split(arguments.points):
        name, _, value = text.partition("=")
        try:
            worth[name] = float(value)
        except ValueError:
            raise ValueError(f"--points takes NAME=NUMBER, got {text!r}") from None
    wanted = assign.Wanted(
        names=split(arguments.choose),
        chapters=tuple(c.zfill(2) for c in split(arguments.chapters)),
        kinds=split(arguments.kinds),
        difficulties=tuple(int(d) if d.isdecimal() else d for d in split(arguments.difficulty)),
        minutes=arguments.minutes,
    )
    described = assign.build(
        arguments.folder,
        collection.find_exercises(arguments.exercises),
        wanted,
        language=arguments.language,
        title=arguments.title or arguments.folder.name,
        deadline=arguments.deadline,
        worth=worth,
        private=arguments.private,
    )
    table(
        [[e["name"], e["kind"], f"{e['minutes']} min", f"{number(e['points'])} points", e["title"]]
         for e in described["exercises"]]
    )  # fmt: skip
    minutes = sum(e["minutes"] for e in described["exercises"])
    say(f"{minutes} minutes, {number(sum(e['points'] for e in described['exercises']))} points in all")
    say(f"give out: {arguments.folder / 'student' / (described['name'] + '.ipynb')}")
    say(f"keep:     {arguments.folder / 'grader'} (hidden tests)")


def grade(arguments) -> None:
    from tutorial_lib.teaching.grade import grade as grade_all

    described, people = assign.load(arguments.folder), roster(arguments, assign.load(arguments.folder))
    if arguments.unsafe:
        sys.stderr.write("WARNING: --unsafe: each submission may do on this machine all that you may do.\n")

    start = time.monotonic()

    def progress(done: int, total: int, result: dict) -> None:
        filled, left = round(24 * done / total), (time.monotonic() - start) / done * (total - done)
        told = f", about {-(-left // 60):.0f} min left" if done < total else ""
        flags = f"  {' '.join(result['flags'])}" if result["flags"] else ""
        say(f"[{'#' * filled}{'.' * (24 - filled)}] {done}/{total}{told}  {result['student']}{flags}")

    found = grade_all(
        arguments.folder,
        arguments.submissions,
        workers=arguments.workers,
        unsafe=arguments.unsafe,
        again=arguments.again,
        seed=arguments.seed,
        progress=progress,
    )
    look = report.to_look_at(arguments.folder, people)
    say(f"{len(found)} graded; to be looked at: {', '.join(look) or 'none'}")
    if gone := [result["student"] for result in kept.gone(arguments.folder)]:
        say(
            f"{len(gone)} graded before are no longer among the submissions and in no table: {', '.join(gone)}"
        )
    say(f"grades: {report.grades(arguments.folder, described, people)}")
    if any(exercise["manual"] for exercise in described["exercises"]):
        say(f"points by hand: {by_hand.marks_sheet(arguments.folder, described)}")
        tell_strays(arguments.folder, described)


def tell_strays(folder: Path, described: dict) -> None:
    """Say whose points count for nobody, because the file has gone or has another name and content."""
    if strays := by_hand.strays(folder, described):
        say(
            f"note: points typed in {len(strays)} rows belong to names no longer among the submissions "
            f"({', '.join(dict.fromkeys(strays))}); they count for nobody and stay at the end of by_hand.csv"
        )


def roster(arguments, described: dict) -> list[Person] | None:
    """The people of --roster, with a word where hand-in times cannot be compared."""
    people = read_roster(arguments.roster) if arguments.roster else None
    if any(person.handed_in for person in people or ()) and read_time(described["deadline"]) is None:
        say("note: the assignment has no deadline such as 2026-09-30 23:59, so nobody can be told to be late")
    return people


def marks(arguments) -> None:
    described, people = assign.load(arguments.folder), roster(arguments, assign.load(arguments.folder))
    if arguments.filled:
        taken = by_hand.read_marks(arguments.folder, described, arguments.filled)
        say(f"{taken.points} points taken over, {taken.withdrawn} withdrawn")
        if taken.empty:
            say(
                f"note: {taken.empty} places are empty although points were given earlier; these stay, "
                f"and {by_hand.WITHDRAWN} in place of the points withdraws them"
            )
        tell_strays(arguments.folder, described)
        say(f"grades: {report.grades(arguments.folder, described, people)}")
    else:
        say(f"fill in: {by_hand.marks_sheet(arguments.folder, described)}")


def give_feedback(arguments) -> None:
    written = feedback(arguments.folder, assign.load(arguments.folder))
    say(f"{len(written)} pages in {arguments.folder / 'feedback'}")


def split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="tutorial-lib", description="Tools of the book.")
    teach = top.add_subparsers(dest="area", required=True).add_parser("teach", help="exercises and grading")
    commands = teach.add_subparsers(dest="command", required=True)

    def command(name: str, what: str, action, folder: bool = True) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=what, description=what)
        one.set_defaults(action=action)
        if folder:
            one.add_argument("folder", type=Path, help="folder of the assignment, such as course/hw1")
        return one

    one = command("list", "list all exercises", show_list, folder=False)
    one.add_argument("--language", choices=("en", "ko"), default="en")
    one.add_argument("--exercises", type=Path, help="the book's folder exercises/")

    one = command("assign", "choose exercises into an assignment", make_assignment)
    one.add_argument("--choose", default="", help="names, such as 05-attend,01-batch")
    one.add_argument("--chapters", default="", help="numbers, such as 01,05")
    one.add_argument("--kinds", default="", help=f'of {", ".join(KINDS)}, such as "concept,find the bug"')
    one.add_argument("--difficulty", default="", help="such as 1,2")
    one.add_argument("--minutes", type=int, default=0, help="at most this long in all")
    one.add_argument("--points", default="", help="other than the usual, such as 05-attend=10,05-table=3")
    one.add_argument("--title", default="", help="heading of the notebook")
    one.add_argument(
        "--deadline",
        default="",
        help='like "2026-09-30 23:59"; shown to students as you write it',
    )
    one.add_argument("--language", choices=("en", "ko"), default="en")
    one.add_argument("--private", type=Path, help="folder with hidden tests of your own")
    one.add_argument("--exercises", type=Path, help="the book's folder exercises/")

    one = command("grade", "grade a folder of whatever was handed in", grade)
    one.add_argument("submissions", type=Path, help="folder with a file or folder per student")
    one.add_argument("--workers", type=int, default=2, help="how many at a time (2)")
    one.add_argument("--seed", type=int, default=1, help="of the numbers in hidden tests")
    one.add_argument("--again", action="store_true", help="also what is graded and has not changed")
    one.add_argument("--roster", type=Path, help="CSV with the columns student, name, handed_in")
    one.add_argument("--unsafe", action="store_true", help="run submissions without any protection")

    one = command("marks", "points by hand: write the table, or read it with --filled", marks)
    one.add_argument("--filled", type=Path, help="the table with your points, such as course/hw1/by_hand.csv")
    one.add_argument("--roster", type=Path, help="as for grade")

    command("feedback", "write a page for each student, without hidden tests", give_feedback)

    one = command("digest", "for authors: what a test holds in place of an answer", None, folder=False)
    one.add_argument("exercise")
    one.add_argument("part")
    one.add_argument("answer")
    one.set_defaults(action=lambda a: say(digest(a.exercise, a.part, a.answer)))
    return top


def main(argv: list[str] | None = None) -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")
    arguments = parser().parse_args(argv)
    needed = arguments.command in ("assign", "grade") and importlib.util.find_spec("nbgrader") is None
    if needed:
        sys.stderr.write("nbgrader is missing: pip install -e '.[teach]' in a copy of the book\n")
        return 2
    try:
        arguments.action(arguments)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("stopped; the same command goes on from here\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
