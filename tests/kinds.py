"""Bad submissions, one of each kind, for an assignment of 05-attend (6 points), 05-table (2) and 05-importance.

`python tests/kinds.py` grades one of each, with ours and with plain nbgrader, and writes the table of
`book/kinds.md`. Tests import the kinds from here.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
import unicodedata
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("05-attend", "05-table", "05-importance")
MARKER = "/var/tmp/written-by-a-submission"
LEFT = "left-running-4711"  # appears in the command line of a process that a submission leaves behind


@dataclass(frozen=True)
class Kind:
    """One kind: how the file is made, and what grading it must give."""

    name: str
    make: Callable  # (Workshop, Path of the folder) -> None
    points: tuple[float, float] | None = (6, 2)  # attend, table; None: only the flag counts
    flags: tuple[str, ...] = ()
    status: str = "ok"
    runs: bool = True  # False: the file is odd, but what is in it is the right solution


class Workshop:
    """The student's notebook of the assignment, and the tools to spoil it."""

    def __init__(self, notebook: dict, exercises: dict):
        self.notebook, self.exercises = notebook, exercises
        self.good = {
            "05-attend": exercises["05-attend"].answer,
            "05-table": exercises["05-table"].answer,
            "05-importance": "값 벡터의 길이도 중요합니다.",
        }

    def book(self, own_cell: str = "", at: int = 2, **answers: str) -> dict:
        """The notebook, solved but for `answers` (attend=..., table=...), with a cell of the student's own."""
        book = copy.deepcopy(self.notebook)
        texts = {**self.good, **{f"05-{name}": text for name, text in answers.items()}}
        for cell in book["cells"]:
            name = grade_id(cell)
            if name.endswith("-answer"):
                cell["source"] = texts[name.removesuffix("-answer")]
        if own_cell:
            book["cells"].insert(at, code(own_cell))
        return book

    @property
    def wrong(self) -> str:
        return self.exercises["05-attend"].of("wrong")[0].code


def grade_id(cell: dict) -> str:
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


def code(source: str) -> dict:
    empty = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    return {**empty, "id": "own-cell", "source": source}


def plain(name: str, own_cell: str = "", points=(6, 2), flags=(), status="ok", at=2, **answers) -> Kind:
    """A kind that differs from the right solution in the text of cells only."""

    def make(shop: Workshop, folder: Path) -> None:
        texts = {key: shop.wrong if text == "WRONG" else text for key, text in answers.items()}
        (folder / f"{name}.ipynb").write_text(json.dumps(shop.book(own_cell, at, **texts)), encoding="utf-8")

    return Kind(name, make, points, tuple(flags), status)


def changed(name: str, change: Callable, points=(6, 2), flags=(), status="ok", runs=False, **answers) -> Kind:
    """A kind whose notebook is changed as a whole."""

    def make(shop: Workshop, folder: Path) -> None:
        texts = {key: shop.wrong if text == "WRONG" else text for key, text in answers.items()}
        book = shop.book(**texts)
        book = change(book) or book
        (folder / f"{name}.ipynb").write_text(json.dumps(book), encoding="utf-8")

    return Kind(name, make, points, tuple(flags), status, runs)


def file(name: str, write: Callable, **expected) -> Kind:
    """A kind that is about files rather than cells."""
    return Kind(name, write, runs=False, **expected)


def each_cell(action: Callable) -> Callable:
    def change(book: dict) -> None:
        for cell in book["cells"]:
            action(cell)

    return change


def tests_of(book: dict) -> list[dict]:
    return [cell for cell in book["cells"] if grade_id(cell).endswith("-test")]


def without_tests(book: dict) -> None:
    gone = tests_of(book)
    book["cells"] = [cell for cell in book["cells"] if cell not in gone]


def honest_tests(book: dict) -> None:
    for cell in tests_of(book):
        cell["source"] = "assert True"


def twice(suffix: str, old: str = "") -> Callable:
    def change(book: dict) -> None:
        for number, cell in enumerate(book["cells"]):
            if grade_id(cell) == f"05-attend-{suffix}":
                book["cells"].insert(number, {**copy.deepcopy(cell), **({"source": old} if old else {})})
                return

    return change


def colab(minor: int) -> Callable:
    def change(book: dict) -> None:
        book["nbformat_minor"] = minor
        book["metadata"] |= {
            "accelerator": "GPU",
            "colab": {"gpuType": "T4"},
            "widgets": {"x": {"state": {}}},
        }
        for cell in book["cells"]:
            cell["metadata"]["id"] = cell.pop("id")
            if minor == 5:
                cell["id"] = cell["metadata"]["id"]
        badge = {"cell_type": "markdown", "metadata": {}, "source": '<img src="colab-badge.svg">'}
        book["cells"].insert(0, badge)

    return change


def stripped(book: dict) -> None:
    for cell in book["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    book["metadata"] = {}


def old_format(book: dict) -> dict:
    cells = []
    for cell in book["cells"]:
        text = cell.pop("source")
        cells.append({**cell, ("input" if cell["cell_type"] == "code" else "source"): text.splitlines(True)})
    return {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells}]}


def in_one_cell(book: dict) -> None:
    answers = [
        cell for cell in book["cells"] if grade_id(cell).endswith("-answer") and cell["cell_type"] == "code"
    ]
    book["cells"].insert(2, code("\n\n".join(cell["source"] for cell in answers)))
    book["cells"] = [cell for cell in book["cells"] if cell not in answers]


def to_markdown(book: dict) -> None:
    for cell in book["cells"]:
        if grade_id(cell) == "05-attend-answer":
            cell["cell_type"] = "markdown"
            cell.pop("outputs", None)


def odd_characters(book: dict) -> None:
    for cell in book["cells"]:
        if grade_id(cell) == "05-attend-answer":
            cell["source"] += "\n# \ud83d lone surrogate, \x00 NUL, \r\n# and a Windows line end"


def raw(name: str, content: bytes, **expected) -> Kind:
    return file(name, lambda shop, folder: (folder / f"{name}.ipynb").write_bytes(content), **expected)


def encoded(name: str, encoding: str) -> Kind:
    def write(shop: Workshop, folder: Path) -> None:
        text = json.dumps(shop.book(), ensure_ascii=False).replace("✗", "").replace("—", "-")
        (folder / f"{name}.ipynb").write_bytes(text.encode(encoding, "ignore"))

    return file(name, write)


def zipped(name: str, members: Callable, **expected) -> Kind:
    def write(shop: Workshop, folder: Path) -> None:
        with zipfile.ZipFile(folder / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in members(shop).items():
                archive.writestr(member, content)

    return file(name, write, **expected)


def in_folder(name: str, files: Callable, **expected) -> Kind:
    def write(shop: Workshop, folder: Path) -> None:
        for path, content in files(shop).items():
            (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / path).write_bytes(content)

    return file(name, write, **expected)


def solved(shop: Workshop) -> bytes:
    return json.dumps(shop.book()).encode()


def english(shop: Workshop, folder: Path) -> None:
    book = shop.book()
    for cell in book["cells"]:
        if cell["cell_type"] == "markdown" and not grade_id(cell).endswith("-answer"):
            cell["source"] = "## The same in English"
    (folder / "notebook of the other language.ipynb").write_text(json.dumps(book))


def link(shop: Workshop, folder: Path) -> None:
    os.symlink("/etc/passwd", folder / "link to a file of the machine.ipynb")


def named(shown: str) -> Callable:
    def write(shop: Workshop, folder: Path) -> None:
        (folder / f"{shown}.ipynb").write_bytes(solved(shop))

    return write


class Bomb:
    """Runs when it is unpickled."""

    def __reduce__(self):
        return os.system, (f"touch {MARKER}-pickle",)


def with_pickle(shop: Workshop) -> dict[str, bytes]:
    import pickle

    return {"hw1.ipynb": solved(shop), "model.pkl": pickle.dumps(Bomb())}


def big_zip(shop: Workshop) -> dict[str, bytes]:
    return {"hw1.ipynb": b" " * 30_000_000}


def nested_json() -> bytes:
    return b'{"cells": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


LOOP = "def attend(query, key, value, mask=None):\n    while True:\n        pass"
STUBBORN = """def attend(query, key, value, mask=None):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass"""
FAKE = """class Fake:
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
    def __eq__(self, other): return True
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __eq__
    def __sub__(self, other): return self
    __rsub__ = __abs__ = lambda self, *a: self
    __hash__ = None
    def __getitem__(self, key): return self
    def __bool__(self): return True
def attend(query, key, value, mask=None): return Fake(), Fake()"""
NO_ASSERT = """import ast
class Drop(ast.NodeTransformer):
    def visit_Assert(self, node): return ast.copy_location(ast.Pass(), node)
get_ipython().ast_transformers.append(Drop())"""
PATCH_TESTS = """from tutorial_lib.teaching import checking
checking.Test.fail = lambda *a, **k: None"""
SILENT = (
    "get_ipython().showtraceback = lambda *a, **k: None\nget_ipython()._showtraceback = lambda *a, **k: None"
)
FILES = f"""import os, glob
for path in ("/etc/passwd", os.path.expanduser("~"), "/root", "/home"):
    try: print(os.listdir(path) if os.path.isdir(path) else open(path).read())
    except OSError as error: print(error)
try: open("{MARKER}", "w").write("x")
except OSError: pass
found = [p for top in ("/tmp", "/work", "/home", "/root", "/srv") for p in glob.glob(top + "/**/gradebook.db", recursive=True)]
assert not found, found"""
STORED = """_calls = []
def attend(query, key, value, mask=None):
    if query.shape == (2, 4, 3) and key.shape == (2, 6, 3):
        w = (query @ key.transpose(-2, -1) / 3 ** 0.5)
        if mask is not None: w = w.masked_fill(~mask, float("-inf"))
        w = w.softmax(-1)
        return w @ value, w
    return value, value"""
SPY = """import builtins
_seen = []
def _spy(info):
    _seen.append(getattr(info, "raw_cell", ""))
get_ipython().events.register("pre_run_cell", _spy)
def attend(query, key, value, mask=None):
    raise type("HiddenTestsAre" + str(abs(hash(str(_seen)))), (Exception,), {})("\\n".join(_seen))"""

KINDS = [
    plain("right solution"),
    plain("wrong solution", points=(0, 2), attend="WRONG"),
    plain("syntax error", points=(0, 2), attend="def attend(query key):\n    return"),
    plain("infinite loop", points=(0, 2), attend=LOOP),
    plain("infinite loop that catches everything", points=(0, 2), status="look", attend=STUBBORN),
    changed("tests deleted, wrong", without_tests, (0, 2), ["deleted-cells"], runs=True, attend="WRONG"),
    changed("tests deleted, right", without_tests, flags=["deleted-cells"]),
    changed("tests edited, wrong", honest_tests, (0, 2), ["edited-tests"], runs=True, attend="WRONG"),
    plain("reads and writes files of the machine, looks for the gradebook", FILES),
    plain("exit()", "exit()"),
    plain("sys.exit()", "import sys\nsys.exit(0)"),
    plain("os._exit(0) in one answer", points=(6, 0), status="look", table="import os\nos._exit(0)"),
    plain("kills its own kernel", points=(6, 0), status="look", table="import os\nos.kill(os.getpid(), 9)"),
    plain("segmentation fault", points=(6, 0), status="look", table="import ctypes\nctypes.string_at(0)"),
    plain("two million lines", "for i in range(2_000_000): print(i)"),
    plain("one line of 60 MB", "print('x' * 60_000_000)"),
    plain("300 MB of HTML", "from IPython.display import HTML, display\nfor _ in range(10): display(HTML('x' * 30_000_000))"),
    plain("error message of 50 MB", "raise ValueError('x' * 50_000_000)"),
    raw("no notebook", b"See my repository.", points=(0, 0), flags=("no-notebook",), status="look"),
    raw("empty file", b"", points=(0, 0), flags=("no-notebook",), status="look"),
    raw("damaged JSON", b'{"cells": [{"cell_type": "code", "sou', points=(0, 0), flags=("no-notebook",), status="look"),
    raw("JSON nested 100,000 deep", nested_json(), points=(0, 0), flags=("no-notebook",), status="look"),
    file("renamed", named("Copy of hw1 (1)")),
    changed("answer cell twice, old and new", twice("answer", "def attend(*a): return 1"), flags=["answered-twice"], status="look"),
    changed("test cell twice", twice("test")),
    changed("saved by Colab, format 4.0", colab(0)),
    changed("saved by Colab, format 4.5, with badge", colab(5)),
    plain("commands for Colab, pip and the shell", "from google.colab import drive\ndrive.mount('/x')\n%pip install einops\n!apt-get install cowsay\n%cd /x", flags=["commands-removed"]),
    changed("all metadata and ids lost", stripped, flags=["lost-metadata"]),
    plain("patches torch.allclose", "import torch\ntorch.allclose = lambda *a, **k: True", (0, 2), attend="WRONG"),
    plain("object that fakes comparisons", points=(0, 2), attend=FAKE),
    plain("drops every assert", NO_ASSERT, None, ["tampered"], "look", attend="WRONG"),
    plain("patches the tests", PATCH_TESTS, None, ["tampered"], "look", attend="WRONG"),
    plain("silences errors", SILENT, (0, 2), attend="WRONG"),
    plain("overwrites `check`", "check = lambda *a: None", at=4),
    plain("shadows names of Python", "list, max, sum, print, len = [1], 3, 0, None, 7"),
    plain("background process", f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', '{LEFT}'])"),
    plain("300 processes", points=(6, 0), status="look", table="import os, time\nfor _ in range(300):\n    if os.fork() == 0: time.sleep(60); os._exit(0)\ntime.sleep(10)"),
    plain("thread that never stops", "import threading, time\ndef f():\n    while True: time.sleep(.01); print('.')\nthreading.Thread(target=f, daemon=True).start()"),
    plain("6 GB of memory", points=(6, 0), table="x = bytearray(6_000_000_000)\nattends_most_to, weight_of_on = 'on', 0.222"),
    plain("fills the disk", "for where in ('/tmp', '/dev/shm', '/var/tmp', '.'):\n    try:\n        for i in range(20): open(f'{where}/{i}', 'wb').write(b'0' * 50_000_000)\n    except OSError as error: print(error)"),
    plain("asks the network", "import urllib.request\ntry: print(urllib.request.urlopen('http://1.1.1.1', timeout=3).status)\nexcept OSError as error: print(error)"),
    plain("waits for input()", points=(6, 0), table="attends_most_to = input('?')\nweight_of_on = 0.222"),
    plain("closes its output", "import sys\nsys.stdout = None", None, status="look"),
    plain("right for the visible test only", points=(2, 2), attend=STORED),
    plain("reads hidden tests and raises them as an error", points=(0, 2), status="look", attend=SPY),
    changed("answer cell turned into Markdown", to_markdown, flags=["changed-cell-type"]),
    changed("answers in one cell of their own", in_one_cell, flags=["answered-elsewhere"]),
    changed("odd characters in the source", odd_characters),
    changed("notebook of format 3", old_format),
    changed("kernel of another language", lambda book: book["metadata"].update(kernelspec={"name": "ir", "display_name": "R"})),
    in_folder("with a poisoned pickle", with_pickle),
    in_folder("홍길동_12345_assignsubmission_file_", lambda s: {"hw1.ipynb": solved(s), "__MACOSX/._hw1.ipynb": b"\0"}),
    in_folder("empty copy and solved one", lambda s: {"a.ipynb": json.dumps(s.notebook).encode(), "b.ipynb": solved(s)}, flags=("several-notebooks",)),
    in_folder("checkpoint of Jupyter beside it", lambda s: {"hw1.ipynb": solved(s), ".ipynb_checkpoints/hw1-checkpoint.ipynb": b"{}"}),
    zipped("zip archive", lambda s: {"../../hw1.ipynb": solved(s)}),
    zipped("zip that unpacks to more than is allowed", big_zip, points=(0, 0), flags=("too-large",), status="look"),
    encoded("Windows' Korean encoding", "cp949"),
    encoded("UTF-16", "utf-16"),
    encoded("UTF-8 with a mark", "utf-8-sig"),
    file("saved as text", lambda s, f: (f / "saved as text.ipynb.txt").write_bytes(solved(s))),
    file("name in single letters (macOS)", named(unicodedata.normalize("NFD", "이서연"))),
    file("name that is a formula", named("=HYPERLINK(1)")),
    file("link to a file of the machine", link, points=(0, 0), flags=("link-or-device",), status="look"),
    file("notebook of the other language", english),
    file("untouched", lambda s, f: (f / "untouched.ipynb").write_text(json.dumps(s.notebook)), points=(0, 0), flags=("unchanged",), status="nothing"),
    raw("another notebook", b'{"cells": [{"cell_type": "code", "source": "print(1)", "metadata": {}, "outputs": []}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', points=(0, 0), flags=("another-notebook",), status="look"),
]  # fmt: skip


def write_all(shop: Workshop, folder: Path, kinds: list[Kind]) -> dict[str, Kind]:
    """Make the files; which student belongs to which kind."""
    sys.path.insert(0, str(ROOT / "src"))
    from tutorial_lib.teaching.handed_in import student_name

    folder.mkdir(parents=True, exist_ok=True)
    owners = {}
    for kind in kinds:
        before = set(folder.iterdir())
        kind.make(shop, folder)
        (made,) = set(folder.iterdir()) - before
        owners[student_name(made)] = kind
    return owners


def leftovers() -> list[str]:
    """What a submission left on this machine: files, and processes that still run."""
    found = [str(path) for path in Path(MARKER).parent.glob(Path(MARKER).name + "*")]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if LEFT in path.read_text(errors="replace") and int(path.parent.name) != os.getpid():
                found.append(f"process {path.parent.name}")
        except OSError:
            continue
    return found


def faults(kind: Kind, result: dict) -> list[str]:
    """What is not as this kind must be graded."""
    found = [f"flag {flag} is missing" for flag in kind.flags if flag not in result["flags"]]
    if result["status"] != kind.status and not (kind.status == "ok" and result["status"] == "look"):
        found.append(f"status {result['status']} instead of {kind.status}")
    got = (result["points"]["05-attend"], result["points"]["05-table"])
    if kind.points is not None and got != kind.points and result["status"] != "look":
        found.append(f"{got} points instead of {kind.points}, and no flag for a human")
    return found


def memory(pid: int) -> float:
    """Resident megabytes of a process and of what it started, without the kernels."""
    sys.path.insert(0, str(ROOT / "src"))
    from tutorial_lib.teaching.process import descendants

    total = 0
    for one in (pid, *descendants(pid)):
        try:
            if b"kernel" not in Path(f"/proc/{one}/cmdline").read_bytes():
                total += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * 4096
        except (OSError, IndexError):
            continue
    return total / 1e6


def many(count: int, workers: int) -> None:
    """Grade `count` submissions, right and wrong in turn; seconds per submission and worker, and memory."""
    import tempfile
    import time

    from tutorial_lib.teaching.grade import grade

    with tempfile.TemporaryDirectory() as place:
        target, shop = prepare(Path(place))
        submissions = Path(place) / "submissions"
        submissions.mkdir()
        answers = [shop.good["05-attend"], *(cell.code for cell in shop.exercises["05-attend"].of("wrong"))]
        for number in range(count):
            book = shop.book(attend=answers[number % len(answers)])
            (submissions / f"student {number:03}.ipynb").write_text(json.dumps(book), encoding="utf-8")
        sizes, start = [], time.monotonic()

        def progress(done: int, total: int, result: dict) -> None:
            right = result["points"]["05-attend"] == 6
            number = int(result["student"].split()[1])
            assert right == (number % len(answers) == 0) and result["points"]["05-table"] == 2, result
            sizes.append(memory(os.getpid()))

        results = grade(target, submissions, workers=workers, progress=progress)
        seconds = time.monotonic() - start
    assert len(results) == count
    half = len(sizes) // 2
    sys.stdout.write(
        f"{count} submissions, {workers} workers: {seconds * workers / count:.1f} s per submission and worker, "
        f"memory at most {max(sizes[:half] or [0]):.0f} MB in the first half, {max(sizes[half:]):.0f} MB in the second\n"
    )
    assert max(sizes[half:]) < 1.2 * max(sizes[:half] or sizes), "memory grows"


def prepare(place: Path):
    """An assignment in a folder, and the workshop that spoils its notebook."""
    from tutorial_lib.teaching import assign, library

    target = place / "hw1"
    assign.build(target, ROOT / "exercises", assign.Wanted(names=NAMES), language="ko", title="과제 1")
    notebook = json.loads((target / "student" / "hw1.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return target, Workshop(notebook, library.names(library.read_all(ROOT / "exercises", "ko")))


def plain_nbgrader(
    target: Path, folder: Path, kinds: list[Kind], shop: Workshop, workers: int
) -> dict[str, str]:
    """What nbgrader alone makes of each kind: its points (attend + table), or how it failed.

    The notebook is handed in as its file is; where there is none, nothing is. Each run is in a sandbox
    of its own as a whole, so what this shows is the score and not the harm.
    """
    from concurrent.futures import ThreadPoolExecutor

    def one(kind: Kind) -> tuple[str, str]:
        place = folder / f"plain-{kinds.index(kind)}"
        course = place / "course"
        shutil.copytree(target / "grader", course, ignore=shutil.ignore_patterns("submitted", "autograded"))
        (place / "in").mkdir()
        kind.make(shop, place / "in")
        to = course / "submitted" / "student" / "hw1"
        to.mkdir(parents=True)
        for path in sorted((place / "in").rglob("*.ipynb"))[:1]:
            name = path.name if kind.name == "renamed" else "hw1.ipynb"  # a platform would keep the name
            shutil.copyfile(path, to / name) if not path.is_symlink() else None
        command = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev"]
        command += [
            "--proc",
            "/proc",
            "--tmpfs",
            "/var/tmp",
            "--tmpfs",
            "/run",
            "--bind",
            str(place),
            str(place),
        ]
        command += ["--chdir", str(course), "--setenv", "TMPDIR", str(place), "--setenv", "HOME", str(place)]
        command += ["prlimit", "--as=6000000000", sys.executable, "-m", "nbgrader", "autograde", "hw1"]
        command += ["--student", "student", "--force", "--create", "--Execute.timeout=20"]
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        environment["PYTHONPATH"] = str(ROOT / "src")
        try:
            ran = subprocess.run(command, capture_output=True, timeout=240, env=environment)
        except subprocess.TimeoutExpired:
            return kind.name, "no result in 240 s"
        from tutorial_lib.teaching.engine import scores

        try:
            points = scores(course, "hw1", "student")
        except Exception:
            return kind.name, "no row"
        total = sum(v for name, v in points.items() if name.startswith(("05-attend", "05-table")))
        shutil.rmtree(place, ignore_errors=True)
        return kind.name, f"{total:g}" + ("" if ran.returncode == 0 else " (failed)")

    with ThreadPoolExecutor(workers) as pool:
        found = {}
        for name, outcome in pool.map(one, kinds):
            found[name] = outcome
            sys.stdout.write(f"plain nbgrader, {name}: {outcome}\n")
            sys.stdout.flush()
        return found


TABLE = """\
# How bad submissions are graded

One submission of each kind, for an assignment of 05-attend (6 points), 05-table (2 points) and a discussion,
graded in the sandbox. `python tests/kinds.py` measures it anew and writes this table, with a column of what
nbgrader alone makes of the same files. A row that says *look* is put before a human; the others are final.
"""


def write_table(path: Path, rows: list[dict], plain: dict[str, str]) -> None:
    heading = ["kind", "05-attend", "05-table", "status", "flags", *(["nbgrader alone"] if plain else [])]
    lines = [heading, ["---"] * len(heading)]
    for row in rows:
        points = [f"{value:g}" for value in row["points"]]
        line = [row["kind"], *points, row["status"], ", ".join(row["flags"])]
        lines.append([*line, *([plain.get(row["kind"], "")] if plain else [])])
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    path.write_text(f"{TABLE}\n{table}\n", encoding="utf-8")


def main() -> None:
    """Grade one submission of each kind and write the table."""
    import argparse
    import tempfile

    sys.path.insert(0, str(ROOT / "src"))
    from tutorial_lib.teaching.grade import grade

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="words of the kinds' names, by commas")
    parser.add_argument("--running", action="store_true", help="only kinds that are odd when they run")
    parser.add_argument("--plain", action="store_true", help="nbgrader alone too, for a part of the kinds")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--table", type=Path, default=ROOT / "exercises" / "KINDS.md")
    parser.add_argument("--many", type=int, default=0, help="grade so many ordinary submissions instead")
    arguments = parser.parse_args()
    if arguments.many:
        return many(arguments.many, arguments.workers)
    words = [word for word in arguments.only.split(",") if word]
    kinds = [
        k
        for k in KINDS
        if (not words or any(w in k.name for w in words)) and (k.runs or not arguments.running)
    ]
    with tempfile.TemporaryDirectory() as place:
        target, shop = prepare(Path(place))
        submissions = Path(place) / "submissions"
        owners = write_all(shop, submissions, kinds)

        def progress(done: int, total: int, result: dict) -> None:
            bad = faults(owners[result["student"]], result)
            points = [result["points"]["05-attend"], result["points"]["05-table"]]
            line = f"{done}/{total} {owners[result['student']].name}: {points} {result['flags']} {result['seconds']} s"
            sys.stdout.write(line + (f"  <-- {bad}" if bad else "") + "\n")
            if "graded-one-by-one" in result["flags"]:
                sys.stdout.write(f"    first: {result['why'][-300:]!r}\n")
            sys.stdout.flush()

        results = grade(target, submissions, workers=arguments.workers, progress=progress)
        plain = {}
        if len(kinds) == len(KINDS) or arguments.plain:
            plain = plain_nbgrader(target, Path(place), kinds, shop, arguments.workers)
    rows = [
        {
            "kind": owners[r["student"]].name,
            "points": [r["points"]["05-attend"], r["points"]["05-table"]],
            "status": r["status"],
            "flags": r["flags"],
            "seconds": r["seconds"],
            "faults": faults(owners[r["student"]], r),
        }
        for r in results
    ]
    order = [kind.name for kind in kinds]
    if len(kinds) == len(KINDS):
        write_table(arguments.table, sorted(rows, key=lambda row: order.index(row["kind"])), plain)
    sys.exit(
        "\n".join(f"{row['kind']}: {row['faults']}" for row in rows if row["faults"]) or leftovers() or 0
    )


if __name__ == "__main__":
    main()
