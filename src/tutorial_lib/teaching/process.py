"""The processes that grade: an engine per worker, a child of it per submission, watched from outside."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SUBMISSION_SECONDS = int(os.environ.get("GRADER_SUBMISSION_SECONDS", "240"))
MOST_PROCESSES = 100  # of one submission
MOST_SHARED = 50_000_000  # bytes in the folder that the kernel shares with us


@contextmanager
def only_run(course: Path) -> Iterator[Path]:
    """A folder for as long as a run lasts. What a killed run has left behind is removed first.

    Raises:
        ValueError: if another run is grading this course.
    """
    with (course / "running").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(
                file, fcntl.LOCK_EX | fcntl.LOCK_NB
            )  # the system lets go of it when this process ends
        except OSError:
            raise ValueError(
                f"{course.parent} is being graded by another run: wait until it has ended"
            ) from None
        file.seek(0)
        left = Path(file.read().strip())
        if left.name.startswith("teach-"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="teach-") as folder:
            os.chmod(folder, 0o711)  # the kernel is another user, and its sockets lie below
            file.truncate(0)
            file.write(folder)
            file.flush()
            yield Path(folder)


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
        pid, reason = int(self.process.stdout.readline() or 0), ""
        if pid <= 1:  # the engine is gone, or out of step: never signal 0 or 1
            self.process.kill()
            raise RuntimeError("the engine ended before it began")
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


def close_engines(*, at_once: bool = False) -> None:
    """End the engines of all threads, when they have done what they were doing or at once."""
    while OPEN:
        engine = OPEN.pop()
        if at_once:
            kill(engine.process.pid)
            engine.process.wait()
        else:
            engine.close()


def run(target: Path, name: str, key: str, found, environment: dict) -> dict:
    """Grade one notebook in a process that is watched from outside."""
    course = target / "grader"
    place = course / "submitted" / key / name / f"{name}.ipynb"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(found.book, ensure_ascii=False), encoding="utf-8")
    folder = Path(tempfile.mkdtemp(prefix="k", dir=environment["GRADER_SCRATCH"]))
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
    if shared(runtime) > MOST_SHARED:
        return "wrote too much into the folder of its sockets"
    if len(descendants(pid)) > MOST_PROCESSES:
        return f"started more than {MOST_PROCESSES} processes"
    return ""


def shared(runtime: Path) -> int:
    """Bytes in a folder whose files come and go while we look."""
    total = 0
    for name in os.listdir(runtime):
        with suppress(OSError):
            total += (runtime / name).lstat().st_size
    return total


def descendants(pid: int) -> list[int]:
    """All processes below this one; none where the machine does not tell (no /proc)."""
    if not Path("/proc/self/task").exists():
        return []
    found, waiting = [], [pid]
    while waiting:
        below = children(waiting.pop())
        found += below
        waiting += below
    return found


def children(pid: int) -> list[int]:
    """The processes that any thread of this one has started and that have not been waited for."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # its own threads: far fewer than all of /proc
    except OSError:  # it has ended meanwhile
        return []
    found = []
    for thread in threads:
        with suppress(OSError):
            found += [
                int(number) for number in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
            ]
    return found


def kill(pid: int) -> None:
    """End a process and all that it started; a sandbox ends with its parent."""
    for one in (pid, *descendants(pid)):
        try:
            os.kill(one, signal.SIGKILL)
        except OSError:
            continue
