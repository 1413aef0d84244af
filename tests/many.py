"""Many submissions of mixed quality in one run: seconds for each, and memory from the first to the last."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import unicodedata
from pathlib import Path
from random import Random

from kind_files import Kind, Workshop, leftovers, plain, prepare
from kind_list import KINDS

FAMILY, GIVEN = (
    "김이박최정강조윤장임한오서신권황안송전홍",
    ["민준", "서연", "도윤", "지우", "하준", "수아", "은우", "예은"],
)
DEAR = (
    "infinite",
    "fork bomb",
    "300 processes",
    "prints for ever",
    "6 GB",
    "fills",
    "one line",
    "300 MB",
    "50 MB",
)
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE") / 1e6


def mixture(count: int, shop: Workshop) -> list[Kind]:
    """Two in five right, one in four in an odd file, the others wrong in many ways, a few out to do harm."""
    odd = [kind for kind in KINDS if not kind.runs]
    harmful = [
        k for k in KINDS if k.runs and k.flags != ("unchanged",) and not any(w in k.name for w in DEAR)
    ]
    wrong = [
        plain(f"wrong {number}", points=None, attend=cell.code)
        for number, cell in enumerate(shop.exercises["05-attend"].of("wrong"))
    ]
    wrong += [
        plain("table wrong", points=(6, 0), table=cell.code)
        for cell in shop.exercises["05-table"].of("wrong")
    ]
    wrong += [
        kind
        for kind in KINDS
        if kind.name in ("syntax error", "right for the visible test only", "untouched")
    ]
    loops = [kind for kind in KINDS if kind.name == "infinite loop"]
    kinds = [KINDS[0]] * (count * 2 // 5) + loops * (count // 250)
    kinds += [odd[number % len(odd)] for number in range(count // 4)]
    kinds += harmful[: max(0, min(len(harmful), count // 10))]
    kinds += [wrong[number % len(wrong)] for number in range(count - len(kinds))]
    Random(0).shuffle(kinds)
    return kinds


def names(kinds: list[Kind]) -> list[str]:
    """A Korean name of its own for each; every tenth in single letters, as macOS writes them."""
    found = [
        f"{FAMILY[number % len(FAMILY)]}{GIVEN[number % len(GIVEN)]} {number:03}"
        for number in range(len(kinds))
    ]
    return [unicodedata.normalize("NFD", name) if i % 10 == 0 else name for i, name in enumerate(found)]


def write(shop: Workshop, folder: Path, kinds: list[Kind]) -> None:
    """The files, each under its name."""
    folder.mkdir()
    for name, kind in zip(names(kinds), kinds, strict=True):
        place = folder.parent / "making"
        place.mkdir()
        kind.make(shop, place)
        (made,) = place.iterdir()
        suffix = "" if made.is_dir() else re.search(r"(\.\w{1,5})*$", made.name)[0]
        shutil.move(made, folder / f"{name}{suffix}")
        shutil.rmtree(place)


class Watch(threading.Thread):
    """Looks at this process and all below it every second: memory by part, and processor time."""

    def __init__(self):
        super().__init__(daemon=True)
        self.samples: list[tuple[float, float, float]] = []  # parent, engines, everything that grades one
        self.times: dict[tuple[str, str], float] = {}
        self.done = threading.Event()

    def run(self) -> None:
        from tutorial_lib.teaching.process import descendants

        while not self.done.wait(1):
            parent, engines, rest = self.size(os.getpid()), 0.0, 0.0
            for pid in descendants(os.getpid()):
                size, above = self.size(pid), self.parent
                if above == os.getpid():
                    engines += size * self.is_engine(pid)
                else:
                    rest += size
            self.samples.append((parent, engines, rest))

    def size(self, pid: int) -> float:
        """Resident megabytes; notes the processor time as it passes, and who started the process."""
        self.parent = 0
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return 0.0
        self.parent = int(stat[1])
        self.times[str(pid), stat[19]] = (int(stat[11]) + int(stat[12])) / TICK
        return int(stat[21]) * PAGE

    @staticmethod
    def is_engine(pid: int) -> bool:
        try:
            return b"teaching.engine" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    def take(self) -> list[float]:
        """The most memory of each part since it was last asked, in MB."""
        some, self.samples = self.samples, []
        return [max(column) for column in zip(*some, strict=True)] if some else [0.0, 0.0, 0.0]


def many(count: int, workers: int, place: Path | None) -> list[str]:
    """Grade `count` submissions of mixed quality; what is not as it must be.

    A run with a `place` of its own goes on there when it was killed: what it had measured lies in `measured`.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = place or Path(folder)
        place.mkdir(exist_ok=True)
        return measure(count, workers, place)


def measure(count: int, workers: int, place: Path) -> list[str]:
    from kinds import faults, say

    from tutorial_lib.teaching.grade import grade
    from tutorial_lib.teaching.handed_in import student_name

    target, shop = prepare(place)
    kinds = mixture(count, shop)
    if not (place / "submissions").exists():
        write(shop, place / "submissions", kinds)
    owners = {student_name(Path(f"{n}.ipynb")): kind for n, kind in zip(names(kinds), kinds, strict=True)}
    known = len(list((target / "grader" / "results").glob("*.json")))
    bad, log, watch, mark = [], place / "measured", Watch(), [time.monotonic(), time.process_time()]
    watch.start()

    def progress(done: int, total: int, result: dict) -> None:
        kind, points = owners[result["student"]], result["points"]
        found = faults(kind, result)
        if kind.name.startswith("wrong") and not (points["05-attend"] < 6 and points["05-table"] == 2):
            found.append(f"{points}, although it is wrong")
        bad.extend(f"{result['student']} ({kind.name}): {fault}" for fault in found)
        if done <= known or (done % 25 and done != total):
            return
        used, now = sum(watch.times.values()), time.monotonic()
        new = min(done - known, 25)
        row = {"done": done, "new": new, "cpu": used - mark[1], "clock": now - mark[0], "mb": watch.take()}
        mark[:] = [now, used]
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        sizes = "/".join(f"{size:.0f}" for size in row["mb"])
        say(
            f"{done}/{total}: {row['cpu'] / new:.2f} s of processor each, at most {sizes} MB; {len(bad)} faults"
        )

    results = grade(target, place / "submissions", workers=workers, progress=progress)
    watch.done.set()
    watch.join()
    bad += [] if len(results) == count else [f"{count - len(results)} rows are missing"]
    bad += [f"left behind: {left}" for left in leftovers()]
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    thirds = [
        [row["mb"] for row in rows if third * count < 3 * row["done"] <= (third + 1) * count]
        for third in range(3)
    ]
    sizes = []
    for part, name in enumerate(("parent", "engines", "while one is graded")):
        first, middle, last = (max((mb[part] for mb in some), default=0.0) for some in thirds)
        sizes.append(f"{name} {first:.0f}/{middle:.0f}/{last:.0f}")
        if name != "while one is graded" and first and last > 1.2 * first + 20:
            bad.append(f"memory of the {name} grows from {first:.0f} to {last:.0f} MB")
    new = sum(row["new"] for row in rows)
    cpu, clock = (sum(row[key] for row in rows) / new for key in ("cpu", "clock"))
    say(
        f"{count} submissions, {workers} worker(s): {cpu:.1f} s of processor and {clock * workers:.1f} s by the clock "
        f"per submission and worker; most MB in the first, second, last third: {'; '.join(sizes)}; {len(bad)} faults"
    )
    return bad


if __name__ == "__main__":
    sys.exit("use python tests/kinds.py --many 500")
