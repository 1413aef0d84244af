"""Real runs of the grader: killed in the middle and taken up again; without a sandbox; after a change of mind."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kind_files import ROOT, leftovers, plain, prepare, without_tests

from tutorial_lib.teaching import kept
from tutorial_lib.teaching.process import descendants
from tutorial_lib.teaching.tables import read_csv

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("nbgrader") is None, reason="needs `make teach`"),
]
needs_sandbox = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
SLEEPY = "import time; time.sleep(4)"


@pytest.fixture
def course(tmp_path):
    target, shop = prepare(tmp_path)
    submissions = tmp_path / "submissions"
    submissions.mkdir()
    return target, shop, submissions


def command(target, submissions, *more):
    return [
        sys.executable,
        "-m",
        "tutorial_lib.teaching.cli",
        "teach",
        "grade",
        str(target),
        str(submissions),
        *more,
    ]


def environment(**changes):
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), **changes}


def grade(target, submissions, *more, **changes):
    return subprocess.run(
        command(target, submissions, *more),
        capture_output=True,
        text=True,
        env=environment(**changes),
        timeout=600,
    )


def stored(target):
    files = (target / "grader" / "results").glob("*.json")
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def born(pid):
    """When a process began, which tells it from a later one of the same number; None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if text[0] == "Z" else text[19]


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.1)


def runs_kernel(pid):
    try:
        return b"teaching.kernel" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize(
    "more", [pytest.param((), marks=needs_sandbox), ("--unsafe",)], ids=["sandbox", "unsafe"]
)
def test_a_killed_run_leaves_nothing_running_and_goes_on_where_it_was(course, more):
    target, shop, submissions = course
    for number in range(6):
        kind = plain(f"student {number}", SLEEPY, attend="WRONG" if number % 2 else shop.good["05-attend"])
        kind.make(shop, submissions)
    run = subprocess.Popen(
        command(target, submissions, *more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(),
    )
    try:
        wait_for(lambda: len(stored(target)) >= 2, 240)
        wait_for(lambda: any(runs_kernel(pid) for pid in descendants(run.pid)), 60)
        below = {pid: born(pid) for pid in descendants(run.pid)}
        scratch = Path((target / "grader" / "running").read_text())
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert len(below) >= 4 and scratch.is_dir()
    wait_for(lambda: not [pid for pid, time in below.items() if time and born(pid) == time], 15)
    before = stored(target)
    assert 2 <= len(before) < 6
    again = grade(target, submissions, *more)
    assert again.returncode == 0, again.stderr
    after = stored(target)
    assert len(after) == 6 and all(after[name] == kept for name, kept in before.items())
    rows = read_csv(target / "grades.csv")
    points = [float(row["05-attend 마스크를 쓰는 어텐션"]) for row in rows]
    assert points == [6, 0, 6, 0, 6, 0] and {row["05-table 손으로 구하는 한 행"] for row in rows} == {"2.0"}
    assert not scratch.exists() and not leftovers()


@needs_sandbox
def test_a_second_hand_in_without_its_tests_does_not_keep_the_first_ones_points(course):
    target, shop, submissions = course
    plain("kim").make(shop, submissions)
    assert grade(target, submissions).returncode == 0
    book = shop.book(attend=shop.wrong)
    without_tests(book)
    (submissions / "kim.ipynb").write_text(json.dumps(book), encoding="utf-8")
    assert grade(target, submissions).returncode == 0
    (result,) = kept.current(target)
    assert result["points"]["05-attend"] == 0 and "deleted-cells" in result["flags"]


def test_without_bubblewrap_it_refuses_in_a_sentence_and_unsafe_works_with_a_warning(course):
    target, shop, submissions = course
    own = str(Path(sys.executable).parent)
    if shutil.which("bwrap", path=own):
        pytest.skip("bubblewrap lies beside this Python")
    plain("kim").make(shop, submissions)
    refused = grade(target, submissions, PATH=own)
    assert refused.returncode == 2 and refused.stdout == "" and not stored(target)
    assert refused.stderr.count("\n") == 1 and "--unsafe" in refused.stderr
    allowed = grade(target, submissions, "--unsafe", PATH=own)
    assert allowed.returncode == 0 and allowed.stderr.startswith("WARNING: --unsafe"), allowed.stderr
    (result,) = kept.current(target)
    assert result["points"] == {"05-attend": 6.0, "05-table": 2.0, "05-importance": 0.0}
    assert result["sandbox"] is False and "without-sandbox" in result["flags"]
