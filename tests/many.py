"""Many submissions of mixed quality in one run: seconds for each, and memory from the first to the last."""

from __future__ import annotations

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


def write(shop: Workshop, folder: Path, kinds: list[Kind]) -> dict[str, Kind]:
    """The files, each under a Korean name of its own; every tenth in single letters, as macOS writes them."""
    from tutorial_lib.teaching.handed_in import student_name

    folder.mkdir()
    owners = {}
    for number, kind in enumerate(kinds):
        place = folder.parent / "making"
        place.mkdir()
        kind.make(shop, place)
        (made,) = place.iterdir()
        suffix = "" if made.is_dir() else re.search(r"(\.\w{1,5})*$", made.name)[0]
        name = f"{FAMILY[number % len(FAMILY)]}{GIVEN[number % len(GIVEN)]} {number:03}"
        name = unicodedata.normalize("NFD", name) if number % 10 == 0 else name
        shutil.move(made, folder / f"{name}{suffix}")
        owners[student_name(folder / f"{name}{suffix}")] = kind
        shutil.rmtree(place)
    return owners


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

    def thirds(self, part: int) -> list[float]:
        """The most memory of a part in the first, second and last third."""
        size = max(1, len(self.samples) // 3)
        cut = [self.samples[:size], self.samples[size : 2 * size], self.samples[2 * size :]]
        return [max((sample[part] for sample in some), default=0.0) for some in cut]


def many(count: int, workers: int) -> list[str]:
    """Grade `count` submissions of mixed quality; what is not as it must be."""
    from kinds import faults, say

    from tutorial_lib.teaching.grade import grade

    bad = []
    with tempfile.TemporaryDirectory() as place:
        target, shop = prepare(Path(place))
        owners = write(shop, Path(place) / "submissions", mixture(count, shop))
        watch, start, before = Watch(), time.monotonic(), time.process_time()
        watch.start()

        def progress(done: int, total: int, result: dict) -> None:
            kind, points = owners[result["student"]], result["points"]
            found = faults(kind, result)
            if kind.name.startswith("wrong") and not (points["05-attend"] < 6 and points["05-table"] == 2):
                found.append(f"{points}, although it is wrong")
            bad.extend(f"{result['student']} ({kind.name}): {fault}" for fault in found)
            if done % 25 == 0 or found:
                used = sum(watch.times.values()) - before
                sizes = "/".join(f"{size:.0f}" for size in watch.samples[-1]) if watch.samples else "?"
                say(f"{done}/{total}: {used / done:.2f} s of processor each, MB {sizes} {found or ''}")

        results = grade(target, Path(place) / "submissions", workers=workers, progress=progress)
        seconds = time.monotonic() - start
        watch.done.set()
        watch.join()
    bad += [] if len(results) == count else [f"{count - len(results)} rows are missing"]
    bad += [f"left behind: {left}" for left in leftovers()]
    parts = {
        name: watch.thirds(part) for part, name in enumerate(("parent", "engines", "while one is graded"))
    }
    for name in ("parent", "engines"):
        first, _, last = parts[name]
        if last > 1.2 * first + 20:
            bad.append(f"memory of the {name} grows from {first:.0f} to {last:.0f} MB")
    sizes = "; ".join(f"{name} {'/'.join(f'{size:.0f}' for size in sizes)}" for name, sizes in parts.items())
    used = (sum(watch.times.values()) - before) / count
    say(
        f"{count} submissions, {workers} worker(s): {used:.1f} s of processor and {seconds * workers / count:.1f} s "
        f"by the clock per submission and worker; most MB in the first, second, last third: {sizes}; {len(bad)} faults"
    )
    return bad


if __name__ == "__main__":
    sys.exit("use python tests/kinds.py --many 500")
