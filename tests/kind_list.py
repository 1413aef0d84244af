"""The kinds of bad submissions, and what grading must make of each (05-attend: 6 points, 05-table: 2)."""

from __future__ import annotations

import json
import unicodedata

from kind_files import (
    LEFT,
    MARKER,
    big_zip,
    changed,
    colab,
    encoded,
    english,
    file,
    honest_tests,
    in_folder,
    in_one_cell,
    link,
    named,
    nested_json,
    odd_characters,
    old_format,
    plain,
    raw,
    solved,
    stripped,
    to_markdown,
    twice,
    with_pickle,
    without_tests,
    zipped,
)

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
    plain("prints for ever", "while True: print('again')"),
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
    plain("fork bomb", points=(6, 0), status="look", table="import os\nwhile True: os.fork()"),
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
