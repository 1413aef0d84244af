"""Bad submissions, one of each kind, for an assignment of 05-attend (6 points), 05-table (2) and 05-importance.

`python tests/kinds.py` grades one of each, with ours and with plain nbgrader, and writes the table
`exercises/KINDS.md`. `--many 500` grades so many of mixed quality instead, and watches time and memory.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import sys
import tempfile
from pathlib import Path

from kind_files import ROOT, Kind, leftovers, prepare, write_all
from kind_list import KINDS
from plain_nbgrader import CELL_SECONDS, SECONDS, plain_nbgrader

TABLE = """\
# How bad submissions are graded

One submission of each kind, for an assignment of 05-attend (6 points), 05-table (2 points) and a discussion.
`python tests/kinds.py` grades them all and writes this table; this one is of {date}.

Points, status and flags are ours, from the sandbox. A row that says *look* is put before a human; the
others are final. The last column is what nbgrader alone makes of the same file: its points for both
exercises together (8 is right for a right solution), or how it failed, and the harm that was seen. For it
each run was inside bubblewrap as a whole, in a throw-away copy of the course, with {cell} seconds a cell
and {all} seconds in all. "no row" means that the student is missing from nbgrader's table.
"""


def faults(kind: Kind, result: dict) -> list[str]:
    """What is not as this kind must be graded."""
    found = [f"flag {flag} is missing" for flag in kind.flags if flag not in result["flags"]]
    if (
        "grader-failed" in result["flags"]
    ):  # it does go to a human, but no kind may bring a fault of ours about
        found.append(f"the grader itself failed: {result.get('log', '')[-200:]}")
    if result["status"] != kind.status and not (kind.status == "ok" and result["status"] == "look"):
        found.append(f"status {result['status']} instead of {kind.status}")
    got = (result["points"]["05-attend"], result["points"]["05-table"])
    if kind.points is not None and got != kind.points and result["status"] != "look":
        found.append(f"{got} points instead of {kind.points}, and no flag for a human")
    return found


def write_table(path: Path, kinds: list[Kind], results: dict[str, dict], plain: dict[str, str]) -> None:
    heading = ["kind", "05-attend", "05-table", "status", "flags", "nbgrader alone"]
    lines = [heading, ["---"] * len(heading)]
    for kind in kinds:
        row = results[kind.name]
        points = [f"{row['points'][name]:g}" for name in ("05-attend", "05-table")]
        lines.append([kind.name, *points, row["status"], ", ".join(row["flags"]), plain[kind.name]])
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    head = TABLE.format(date=datetime.date.today(), cell=CELL_SECONDS, all=SECONDS)
    path.write_text(f"{head}\n{table}\n", encoding="utf-8")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def one_of_each(
    kinds: list[Kind], workers: int, plain_too: bool, table: Path | None, place: Path | None
) -> list[str]:
    """Grade one submission of each kind; what is not as it must be.

    A run with a `place` of its own goes on there when it was killed.
    """
    from tutorial_lib.teaching.grade import grade

    with tempfile.TemporaryDirectory() as folder:
        place = place or Path(folder)
        place.mkdir(exist_ok=True)
        target, shop = prepare(place)
        submissions = place / "submissions"
        shutil.rmtree(submissions, ignore_errors=True)
        owners = write_all(shop, submissions, kinds)

        def progress(done: int, total: int, result: dict) -> None:
            kind = owners[result["student"]]
            points = [result["points"]["05-attend"], result["points"]["05-table"]]
            say(f"{done}/{total} {kind.name}: {points} {result['flags']} {result['seconds']} s")
            if bad := faults(kind, result):
                say(f"    <-- {bad}")
            if "graded-one-by-one" in result["flags"]:
                say(f"    first: {result['why'][-300:]!r}")

        results = grade(target, submissions, workers=workers, progress=progress)
        bad = [
            f"{owners[r['student']].name}: {found}"
            for r in results
            if (found := faults(owners[r["student"]], r))
        ]
        bad += [] if len(results) == len(kinds) else [f"{len(kinds) - len(results)} rows are missing"]
        bad += [f"left behind: {left}" for left in leftovers()]
        known = place / "plain.json"
        plain = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {}
        left = [kind for kind in kinds if kind.name not in plain] if plain_too else []
        for name, outcome in plain_nbgrader(target, place, left, shop, workers):
            plain[name] = outcome
            known.write_text(json.dumps(plain, ensure_ascii=False), encoding="utf-8")
            say(f"nbgrader alone, {name}: {outcome}")
        if table:
            write_table(table, kinds, {owners[r["student"]].name: r for r in results}, plain)
    say(f"{len(results)} kinds graded, {len(bad)} faults")
    return bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="words of the kinds' names, by commas; writes no table")
    parser.add_argument("--running", action="store_true", help="only kinds that are odd when they run")
    parser.add_argument("--plain", action="store_true", help="nbgrader alone too, for a part of the kinds")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--table", type=Path, default=ROOT / "exercises" / "KINDS.md")
    parser.add_argument("--many", type=int, default=0, help="grade so many of mixed quality instead")
    parser.add_argument("--place", type=Path, help="a folder to go on in when the run is killed")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "src"))
    if arguments.many:
        from many import many

        sys.exit("\n".join(many(arguments.many, arguments.workers, arguments.place)) or 0)
    words = [word for word in arguments.only.split(",") if word]
    kinds = [
        kind
        for kind in KINDS
        if (not words or any(word in kind.name for word in words)) and (kind.runs or not arguments.running)
    ]
    whole = len(kinds) == len(KINDS)
    table = arguments.table if whole else None
    bad = one_of_each(kinds, arguments.workers, whole or arguments.plain, table, arguments.place)
    sys.exit("\n".join(bad) or 0)


if __name__ == "__main__":
    main()
