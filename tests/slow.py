"""`make slow`: what is too long for every commit, with a dated report in reports/slow.md."""

from __future__ import annotations

import datetime
import importlib.util
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "reports" / "slow.md"
CHECKS = {
    "the notebooks under Colab's versions": [sys.executable, "tests/colab.py"],
    "planted faults, each caught by a test": [sys.executable, "tests/mutants.py"],
    "the equality ladder": [sys.executable, "benchmarks/ladder.py"],
    "bad submissions, one of each kind": [sys.executable, "tests/kinds.py"],
    "500 submissions in one run": [sys.executable, "tests/kinds.py", "--many", "500", "--workers", "1"],
    "tests marked slow": [sys.executable, "-m", "pytest", "-q", "-m", "slow", "tests"],
}
CAN_GRADE = importlib.util.find_spec("nbgrader") is not None and shutil.which("bwrap") is not None
NO_TESTS = 5  # pytest's way to say that nothing carries the mark


def main() -> None:
    rows, failed = [], []
    for what, command in CHECKS.items():
        if "tests/kinds.py" in command and not CAN_GRADE:
            rows.append(f"| {what} | not run | 0 | needs `make teach` and bubblewrap |")
            print(rows[-1], flush=True)
            continue
        start = time.monotonic()
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        good = ran.returncode == 0 or (ran.returncode == NO_TESTS and "pytest" in command)
        last = (ran.stdout + ran.stderr).strip().splitlines()[-1:] or ["(no output)"]
        rows.append(
            f"| {what} | {'passed' if good else 'FAILED'} | {time.monotonic() - start:.0f} | {last[0]} |"
        )
        print(rows[-1], flush=True)
        if not good:
            failed.append(what)
            print(ran.stdout + ran.stderr, file=sys.stderr)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(
        f"# What is too long for every commit\n\n`make slow` on {datetime.date.today()}, at {commit.strip()}, "
        f"Python {platform.python_version()}, {platform.machine()}.\n\n"
        "| check | result | seconds | its last line |\n|---|---|---|---|\n" + "\n".join(rows) + "\n",
        encoding="utf-8",
    )
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
