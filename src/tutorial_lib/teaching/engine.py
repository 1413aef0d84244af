"""nbgrader, used as the engine: a process per submission, which ends with a file of results.

The gradebook, the hidden tests and this process stay outside the sandbox; the
kernel alone is inside. This process has its own limit of memory, for the case
that a kernel floods it.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import tempfile
from pathlib import Path

MEMORY = 2_000_000_000  # bytes, of this process
CELL_SECONDS = int(os.environ.get("GRADER_CELL_SECONDS", "20"))
START_SECONDS = int(os.environ.get("GRADER_START_SECONDS", "120"))  # until a kernel answers


def course_api(course: Path, *, runtime: Path | None = None):
    """nbgrader's own interface for a course folder."""
    own = str(Path(sys.executable).parent)  # nbgrader calls alembic by its name
    if own not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([own, os.environ.get("PATH", "")])
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    config = Config()
    config.CourseDirectory.root = str(course)
    config.CourseDirectory.course_id = "course"
    config.ClearSolutions.enabled = False  # the grader's version has empty answers already
    config.Execute.timeout = CELL_SECONDS
    config.Execute.iopub_timeout = 10
    config.Execute.startup_timeout = START_SECONDS
    if runtime is not None:  # no network inside: talk through files
        config.KernelManager.transport = "ipc"
        config.KernelManager.ip = str(runtime / "k")
    return NbGraderAPI(config=config)


def register(course: Path, name: str) -> None:
    """Enter the grader's version, `source/NAME/NAME.ipynb`, into the gradebook.

    Raises:
        ValueError: with nbgrader's own words if it refuses.
    """
    result = course_api(course).generate_assignment(name, force=True, create=True)
    if not result["success"]:
        raise ValueError(f"nbgrader did not accept the assignment:\n{result['log'] or result['error']}")


def autograde(course: Path, name: str, student: str, runtime: Path) -> dict:
    """Grade one submission and say what each of its tests said."""
    api = course_api(course, runtime=runtime)
    result = api.autograde(name, student, force=True, create=True)
    graded = course / "autograded" / student / name / f"{name}.ipynb"
    answer = {"success": result["success"], "log": (result["log"] or result["error"] or "")[-4000:]}
    if result["success"] and graded.exists():
        book = json.loads(graded.read_text(encoding="utf-8"))
        answer["tests"], answer["answers"] = read_tests(book), read_answers(book)
        answer["scores"] = scores(course, name, student)
    return answer


def read_tests(book: dict) -> dict[str, dict]:
    """For each graded code cell whether it ran, and the name and text of its error."""
    tests = {}
    for cell in book["cells"]:
        described = cell.get("metadata", {}).get("nbgrader", {})
        if cell["cell_type"] != "code" or not described.get("grade"):
            continue
        errors = [output for output in cell["outputs"] if output["output_type"] == "error"]
        tests[described["grade_id"]] = {
            "ran": cell.get("execution_count") is not None,
            "error": errors[0]["ename"] if errors else None,
            "text": errors[0]["evalue"][-300:] if errors else "",
        }
    return tests


def read_answers(book: dict) -> dict[str, dict]:
    """For each answer in code the name and text of its error, and the last line of it that was at work."""
    answers = {}
    for cell in book["cells"]:
        described = cell.get("metadata", {}).get("nbgrader", {})
        if cell["cell_type"] != "code" or not described.get("solution"):
            continue
        errors = [output for output in cell["outputs"] if output["output_type"] == "error"]
        found = (
            {"error": errors[0]["ename"], "text": errors[0]["evalue"][-300:]} if errors else {"error": None}
        )
        if errors:
            shown = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(errors[0]["traceback"]))
            lines = re.findall(rf"Cell In\[{cell.get('execution_count')}\], line (\d{{1,6}})", shown)
            found["line"] = int(lines[-1]) if lines else 0
        answers[described["grade_id"]] = found
    return answers


def scores(course: Path, name: str, student: str) -> dict[str, float]:
    """nbgrader's points by grade id, without those given by hand."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        notebook = book.find_submission_notebook(name, name, student)
        return {
            grade.name: float(grade.auto_score or 0)
            for grade in notebook.grades
            if grade.cell.cell_type == "code"
        }


def die_with_parent() -> None:
    """Let the system end this process when the one that started it is killed (Linux)."""
    import ctypes
    import signal

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def work(job: dict) -> None:
    """Grade one submission in this process and write its file of results."""
    os.setsid()
    die_with_parent()
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.environ.update(job["environment"])
    tempfile.tempdir = None
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))  # the kernel sets its own, so leave the hard one
    try:
        answer = autograde(Path(job["course"]), job["name"], job["student"], Path(job["runtime"]))
    except (Exception, SystemExit) as error:
        answer = {"success": False, "log": f"{type(error).__name__}: {error}"[-4000:]}
    partial = Path(job["target"]).with_suffix(".part")
    partial.write_text(json.dumps(answer), encoding="utf-8")
    os.replace(partial, job["target"])


def main() -> None:
    """Load nbgrader once, then grade each job of the standard input in a process of its own.

    A job is a line of JSON. The answer is two lines: the process's number when
    it starts, and its exit status when it has ended.
    """
    die_with_parent()
    course_api(Path.cwd())  # imports what every job needs
    import nbgrader.api  # noqa: F401

    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                work(json.loads(line))
                status = 0
            finally:
                os._exit(status)
        print(pid, flush=True)
        print(os.waitpid(pid, 0)[1], flush=True)


if __name__ == "__main__":
    main()
