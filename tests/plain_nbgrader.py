"""What nbgrader alone makes of the same files: no normaliser and no sandbox of ours.

Each run is in a throw-away copy of the course, and as a whole inside bubblewrap, so that what a
submission does to this machine can be seen and does not last.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kind_files import LEFT, MARKER, ROOT, Kind, Workshop

SECONDS = int(os.environ.get("PLAIN_SECONDS", "300"))  # of one submission
CELL_SECONDS = int(os.environ.get("PLAIN_CELL_SECONDS", "25"))
NOT_RUN = {
    "fork bomb": "not run: nothing would stop it",
    "asks the network": "8; in our run without a network, which it would reach",
}


def plain_nbgrader(
    target: Path, folder: Path, kinds: list[Kind], shop: Workshop, workers: int
) -> Iterator[tuple[str, str]]:
    """Name of a kind and what came of it: points of attend and table together, and harm, or how it failed.

    The notebook is handed in as its file is, under the name that nbgrader wants (a file renamed by the
    student keeps its name); where there is no notebook, nothing is handed in.
    """

    def one(kind: Kind) -> tuple[str, str]:
        if NOT_RUN.get(kind.name, "").startswith("not run"):
            return kind.name, NOT_RUN[kind.name]
        place = folder / f"plain-{kinds.index(kind)}"
        shutil.rmtree(place, ignore_errors=True)
        try:
            outcome = autograde(target, place, kind, shop)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return kind.name, NOT_RUN.get(kind.name, outcome)

    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(one, kinds)


def autograde(target: Path, place: Path, kind: Kind, shop: Workshop) -> str:
    course = place / "course"
    shutil.copytree(
        target / "grader", course, ignore=shutil.ignore_patterns("submitted", "autograded", "results")
    )
    for name in ("in", "var", "home"):
        (place / name).mkdir()
    kind.make(shop, place / "in")
    to = course / "submitted" / "student" / "hw1"
    to.mkdir(parents=True)
    for path in sorted(p for p in (place / "in").rglob("*.ipynb") if "checkpoint" not in p.name)[:1]:
        name = path.name if kind.name == "renamed" else "hw1.ipynb"
        shutil.copy(path, to / name, follow_symlinks=False)
    try:
        ran = subprocess.run(
            inside(place, course), capture_output=True, timeout=SECONDS, env=environment(place), cwd=course
        )
    except subprocess.TimeoutExpired:
        return f"no result in {SECONDS} s"
    from tutorial_lib.teaching.engine import scores

    try:
        points = scores(course, "hw1", "student")
    except Exception:
        return "no row"
    total = sum(value for name, value in points.items() if name.startswith(("05-attend", "05-table")))
    failed = [] if ran.returncode == 0 else ["failed"]
    return "; ".join([f"{total:g}", *failed, *harm(place, course)])


def inside(place: Path, course: Path) -> list[str]:
    """The command: nbgrader in bubblewrap, then a look at the processes that are left."""
    left = f"grep -l -a [{LEFT[0]}]{LEFT[1:]} /proc/[0-9]*/cmdline > {place}/left; true"
    nbgrader = [
        sys.executable,
        "-m",
        "nbgrader",
        "autograde",
        "hw1",
        "--student",
        "student",
        "--force",
        "--create",
    ]
    nbgrader += [f"--Execute.timeout={CELL_SECONDS}", "--CourseDirectory.course_id=course"]
    nbgrader += ["--OverwriteCells.add_missing_cells=True"]  # else hidden tests never run in our notebook
    command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/", "/"]
    command += ["--dev", "/dev", "--proc", "/proc", "--size", "1000000000", "--tmpfs", "/run"]
    command += [
        "--bind",
        str(place),
        str(place),
        "--bind",
        str(place / "var"),
        "/var/tmp",
        "--chdir",
        str(course),
    ]
    command += ["prlimit", "--as=6000000000", "--fsize=1000000000", "sh", "-c"]
    return [*command, f'"$@"; status=$?; {left}; exit $status', "sh", *nbgrader]


def environment(place: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "TMPDIR": str(place),
        "HOME": str(place / "home"),
        "OMP_NUM_THREADS": "1",
        "GRADER_SEED": "1",
    }


def harm(place: Path, course: Path) -> list[str]:
    """What the submission did beyond answering."""
    found = []
    if (place / "var" / Path(MARKER).name).exists():
        found.append("wrote outside the course")
    if (place / "left").exists() and (place / "left").read_text().strip():
        found.append("left a process running")
    graded = course / "autograded" / "student" / "hw1" / "hw1.ipynb"
    if graded.exists():
        text = graded.read_text(encoding="utf-8", errors="replace")
        if len(text) > 5_000_000:
            found.append(f"notebook of {len(text) / 1e6:.0f} MB")
        outputs = (
            json.dumps([cell.get("outputs") for cell in json.loads(text)["cells"]]) if len(text) < 5e6 else ""
        )
        if "gradebook.db" in outputs:
            found.append("found the gradebook")
    big = sum(path.stat().st_size for path in course.rglob("*") if path.is_file() and path.name.isdigit())
    big += sum(path.stat().st_size for path in (place / "var").rglob("*") if path.is_file())
    if big > 50_000_000:
        found.append(f"wrote {big / 1e9:.1f} GB to the disk")
    return found
