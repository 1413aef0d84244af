"""Grades a folder of submissions: several at a time, each alone, none of them able to stop the others.

What is known of a student is one file, written at once when it is complete. A
run that was killed goes on where it stopped.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tutorial_lib.teaching import assign, sandbox, verdict
from tutorial_lib.teaching.handed_in import Entry, find, read_notebook
from tutorial_lib.teaching.transplant import Found, recognised, transplant

SUBMISSION_SECONDS = 240
MOST_PROCESSES = 100  # of one submission
MOST_SHARED = 50_000_000  # bytes in the folder that the kernel shares with us


def student_key(student: str) -> str:
    """A short name that every file system and nbgrader can hold."""
    return "s" + hashlib.sha256(student.encode("utf-8", "replace")).hexdigest()[:10]


def choose_notebook(release: dict, entry: Entry) -> tuple[dict | None, list[str]]:
    """The notebook among the files that has most of the assignment's cells, and flags."""
    books = [book for _, content in entry.files if (book := read_notebook(content))]
    flags = list(entry.notes)
    if not books:
        return None, [*flags, "no-notebook" if entry.files or entry.notes else "nothing-handed-in"]
    ranked = sorted(books, key=lambda b: (len(transplant(release, b).answered), recognised(release, b)))
    if len(books) > 1:
        flags.append("several-notebooks")
    return ranked[-1], flags


def grade(
    target: Path,
    submissions: Path,
    *,
    workers: int = 2,
    unsafe: bool = False,
    again: bool = False,
    seed: int = 1,
    progress: Callable[[int, int, dict], None] | None = None,
) -> list[dict]:
    """Grade everything in `submissions` for the assignment in `target`; the results by student.

    Args:
        unsafe: run submissions without a sandbox, with all that this user may do.
        again: also those that have been graded and have not changed.
        seed: what the hidden tests draw their numbers from.
        progress: called after each student with how many are done, how many there are, and the result.

    Raises:
        ValueError: if the assignment is missing, or there is no sandbox and `unsafe` is not said.
    """
    described = assign.load(target)
    if not unsafe and (lacking := sandbox.missing()):
        raise ValueError(lacking)
    entries = find(submissions)
    release = json.loads(release_path(target, described).read_text(encoding="utf-8"))
    for cell in release["cells"]:
        cell["source"] = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
    results, done = [], 0
    with tempfile.TemporaryDirectory(prefix="teach-") as folder:
        environment = {
            **os.environ,
            **sandbox.quiet(),
            **sandbox.install_kernel(Path(folder), unsafe=unsafe),
            "GRADER_SEED": str(seed),
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        }

        def one(entry: Entry) -> dict:
            try:
                return grade_one(target, described, release, entry, environment, unsafe, again, seed)
            except Exception as error:  # a fault of ours must not cost the other students their grades
                return verdict.failed(described, entry.student, f"{type(error).__name__}: {error}")

        with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
            for future in as_completed([pool.submit(one, entry) for entry in entries]):
                done += 1
                results.append(future.result())
                if progress:
                    progress(done, len(entries), results[-1])
        while OPEN:
            OPEN.pop().close()
    return sorted(results, key=lambda result: result["student"])


def release_path(target: Path, described: dict) -> Path:
    name = described["name"]
    return target / "grader" / "release" / name / f"{name}.ipynb"


def grade_one(target, described, release, entry, environment, unsafe, again, seed) -> dict:
    """The result of one student, from the file of an earlier run where nothing has changed."""
    key, name = student_key(entry.student), described["name"]
    kept = target / "grader" / "results" / f"{key}.json"
    state = fingerprint(described, entry, unsafe, seed)
    if kept.exists() and not again:
        old = json.loads(kept.read_text(encoding="utf-8"))
        if old.get("fingerprint") == state:
            return old
    start = time.monotonic()
    book, flags = choose_notebook(release, entry)
    found = transplant(release, book)
    for flag in flags:
        found.flag(flag)
    if book is not None and not found.answered:
        known = recognised(release, book) > 1
        found.flag("unchanged" if known else "another-notebook")
    if found.answered:
        said = run(target, name, key, found, environment)
        if needs_rescue(said) and len(found.answered) > 1:
            said = rescue(target, name, key, found, environment, said)
    else:
        said = {"success": True, "tests": {}, "scores": {}, "log": ""}
    result = verdict.judge(described, entry.student, found, said)
    result |= {"key": key, "fingerprint": state, "seconds": round(time.monotonic() - start, 1)}
    result["sandbox"] = not unsafe
    result["answers"] = verdict.manual_answers(described, found)
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(".part")
    partial.write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")
    os.replace(partial, kept)
    return result


def fingerprint(described: dict, entry: Entry, unsafe: bool, seed: int) -> str:
    digest = hashlib.sha256(json.dumps([described["nonce"], unsafe, seed, entry.notes]).encode())
    for file, content in entry.files:
        digest.update(file.encode("utf-8", "replace") + b"\0" + content)
    return digest.hexdigest()


def needs_rescue(said: dict) -> bool:
    """Whether the run stopped half-way, so that good answers may have gone down with a bad one."""
    return not said["success"]


def rescue(target, name, key, found: Found, environment, said) -> dict:
    """Grade the answers one at a time, the others empty, when all together stop the kernel."""
    total = {"success": True, "tests": {}, "scores": {}, "log": said["log"]}
    found.flag("graded-one-by-one")
    for answer in found.answered:
        alone = Found(copy.deepcopy(found.book), [answer], found.flags)
        for cell in alone.book["cells"]:
            described = cell["metadata"].get("nbgrader", {})
            other = described.get("solution") and described["grade_id"] != answer
            if other and cell["cell_type"] == "code":
                cell["source"] = "# set aside"
        stem = answer.removesuffix("-answer")
        part = run(target, name, key, alone, environment)
        if part["success"]:
            watched = ("zz-" + stem, "zz-canary")
            for test, value in part["tests"].items():
                if test.startswith((stem, *watched)):
                    total["tests"][test] = value
            for test, value in part["scores"].items():
                if test.startswith(stem):
                    total["scores"][test] = value
        else:
            found.flag(f"stopped:{stem}")
    return total


class Engine:
    """A process that has nbgrader loaded and grades one submission after another, each in a child."""

    def __init__(self):
        command = [sys.executable, "-m", "tutorial_lib.teaching.engine"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, job: dict, watch: Callable[[int], str]) -> str:
        """Do a job; why it was ended early, or ''. `watch` says why to end it, given the process."""
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        pid, reason = int(self.process.stdout.readline()), ""
        ended = threading.Event()

        def wait() -> None:
            self.process.stdout.readline()
            ended.set()

        threading.Thread(target=wait, daemon=True).start()
        while not ended.wait(0.2):
            if not reason and (reason := watch(pid)):
                kill(pid)
        return reason

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


ENGINES = threading.local()
OPEN: list[Engine] = []


def engine() -> Engine:
    """This thread's engine, started when it is first needed."""
    own = getattr(ENGINES, "own", None)
    if own is None or own.process.poll() is not None:
        own = ENGINES.own = Engine()
        OPEN.append(own)
    return own


def run(target: Path, name: str, key: str, found: Found, environment: dict) -> dict:
    """Grade one notebook in a process that is watched from outside."""
    course = target / "grader"
    place = course / "submitted" / key / name / f"{name}.ipynb"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(found.book, ensure_ascii=False), encoding="utf-8")
    folder = Path(tempfile.mkdtemp(prefix="k"))
    try:
        folder.chmod(0o755)
        runtime, result, log = folder / "r", folder / "result.json", folder / "log"
        runtime.mkdir(mode=0o700)
        job = {
            "course": str(course),
            "name": name,
            "student": key,
            "runtime": str(runtime),
            "target": str(result),
            "log": str(log),
            "environment": {**environment, "JUPYTER_RUNTIME_DIR": str(runtime), "TMPDIR": str(folder)},
        }
        deadline = time.monotonic() + SUBMISSION_SECONDS
        reason = engine().run(job, lambda pid: too_much(pid, runtime, deadline))
        if reason or not result.exists():
            tail = log.read_bytes()[-3000:].decode("utf-8", "replace") if log.exists() else ""
            return {"success": False, "log": reason or f"the engine ended early: {tail}"}
        return json.loads(result.read_text(encoding="utf-8"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def too_much(pid: int, runtime: Path, deadline: float) -> str:
    if time.monotonic() > deadline:
        return f"out of time: more than {SUBMISSION_SECONDS} s"
    if sum(path.lstat().st_size for path in runtime.glob("*") if path.exists()) > MOST_SHARED:
        return "wrote too much into the folder of its sockets"
    if len(descendants(pid)) > MOST_PROCESSES:
        return f"started more than {MOST_PROCESSES} processes"
    return ""


def descendants(pid: int) -> list[int]:
    """All processes below this one; none where the machine does not tell (no /proc)."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            after = path.read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(after[1]), []).append(int(path.parent.name))
        except (OSError, IndexError, ValueError):
            continue
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def kill(pid: int) -> None:
    """End a process and all that it started; a sandbox ends with its parent."""
    for one in (pid, *descendants(pid)):
        try:
            os.kill(one, signal.SIGKILL)
        except OSError:
            continue
