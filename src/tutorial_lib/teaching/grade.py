"""Grades a folder of submissions: several at a time, each alone, none of them able to stop the others.

What is known of a student is one file, written at once when it is complete. A
run that was killed goes on where it stopped.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tutorial_lib.teaching import assign, sandbox, verdict
from tutorial_lib.teaching.by_hand import carry_over
from tutorial_lib.teaching.handed_in import Entry, listed, read, read_notebook
from tutorial_lib.teaching.kept import FORM, remember, store, student_key
from tutorial_lib.teaching.process import close_engines, only_run, run
from tutorial_lib.teaching.transplant import Found, grade_id, recognised, transplant


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
        ValueError: if the assignment is missing, another run is at it, or there is no sandbox and `unsafe`
            is not said.
    """
    described = assign.load(target)
    if not unsafe and (lacking := sandbox.missing()):
        raise ValueError(lacking)
    entries = listed(submissions)
    release = json.loads(release_path(target, described).read_text(encoding="utf-8"))
    for cell in release["cells"]:
        cell["source"] = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
    results, done = [], 0
    with only_run(target / "grader") as folder:
        remember(target, [student for student, _, _ in entries])
        environment = {
            **os.environ,
            **sandbox.quiet(),
            **sandbox.install_kernel(folder, unsafe=unsafe),
            "GRADER_SCRATCH": str(folder),
            "GRADER_SEED": str(seed),
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        }

        def one(student: str, path: Path, notes: tuple[str, ...]) -> dict:
            try:  # read here and not before, so that memory holds no more than is being graded
                entry = read(student, path, notes)
                return grade_one(target, described, release, entry, environment, unsafe, again, seed)
            except Exception as error:  # a fault of ours must not cost the other students their grades
                failed = verdict.failed(described, student, f"{type(error).__name__}: {error}")
                return store(target, failed | {"key": student_key(student), "seconds": 0})

        pool = ThreadPoolExecutor(max_workers=max(1, workers))
        try:
            for future in as_completed([pool.submit(one, *entry) for entry in entries]):
                done += 1
                results.append(future.result())
                if progress:
                    progress(done, len(entries), results[-1])
        except BaseException:  # Ctrl-C: end what runs; the next run goes on from here
            pool.shutdown(wait=False, cancel_futures=True)
            close_engines(at_once=True)
            raise
        pool.shutdown()
        close_engines()
        carry_over(target)
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
    if code_answers(found):
        if unsafe:
            found.flag("without-sandbox")
        said = run(target, name, key, found, environment)
        if not said["success"] and verdict.stop_reason(said["log"]) == "stopped":  # no fault of the answers'
            said = run(target, name, key, found, environment)
        if not said["success"]:
            said = rescue(target, name, key, found, environment, said)
    else:
        said = {"success": True, "tests": {}, "scores": {}, "log": ""}
    result = verdict.judge(described, entry.student, found, said)
    result |= {"key": key, "fingerprint": state, "seconds": round(time.monotonic() - start, 1)}
    result |= {"content": content_of(entry), "size": entry.size}
    result["sandbox"] = not unsafe
    result["why"] = said["log"]  # of the run that stopped, where answers were then graded one by one
    result["answers"] = verdict.manual_answers(described, found)
    return store(target, result)


def content_of(entry: Entry) -> str:
    """What was handed in, whatever the files are called."""
    own = sorted(hashlib.sha256(data).hexdigest() for _, data in entry.files)
    return hashlib.sha256("".join(own).encode()).hexdigest() if own else ""


def fingerprint(described: dict, entry: Entry, unsafe: bool, seed: int) -> str:
    known = [FORM, described["nonce"], unsafe, seed, entry.notes, entry.size]
    digest = hashlib.sha256(json.dumps(known).encode())
    for file, content in entry.files:
        digest.update(file.encode("utf-8", "replace") + b"\0" + content)
    return digest.hexdigest()


def rescue(target, name, key, found: Found, environment, said) -> dict:
    """Grade the answers one at a time, the others empty, when all together stop the kernel."""
    total = {"success": True, "tests": {}, "answers": {}, "scores": {}, "log": said["log"]}
    found.flag("graded-one-by-one")
    for answer in code_answers(found):
        stem = answer.removesuffix("-answer")
        for own_cells in (True, False) if "extra-cells" in found.flags else (True,):
            part = run(target, name, key, alone(found, answer, own_cells), environment)
            if part["success"]:
                break
        else:
            found.flag(f"stopped:{stem}")
            continue
        for test, value in part["tests"].items():
            if test.startswith((f"{stem}-", f"zz-{stem}-", "zz-canary")):
                total["tests"][test] = value
        total["answers"] |= {name: v for name, v in part.get("answers", {}).items() if name == answer}
        for test, value in part["scores"].items():
            if test.startswith(f"{stem}-"):
                total["scores"][test] = value
    return total


def code_answers(found: Found) -> list[str]:
    """The answers that have to be run."""
    code = {grade_id(cell) for cell in found.book["cells"] if cell["cell_type"] == "code"}
    return [answer for answer in found.answered if answer in code]


def alone(found: Found, answer: str, own_cells: bool) -> Found:
    """The notebook with one answer, with or without the cells that the student added."""
    book = copy.deepcopy(found.book)
    if not own_cells:
        book["cells"] = [cell for cell in book["cells"] if "nbgrader" in cell["metadata"]]
    for cell in book["cells"]:
        described = cell["metadata"].get("nbgrader", {})
        other = described.get("solution") and described["grade_id"] != answer
        if other and cell["cell_type"] == "code":
            cell["source"] = "# set aside"
    return Found(book, [answer], found.flags)
