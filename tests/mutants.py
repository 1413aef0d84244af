"""Plant one fault at a time and see whether the tests notice: `python tests/mutants.py`.

    python tests/mutants.py                 # all faults of tests/mutant_list.py
    python tests/mutants.py rotary cache    # those whose description or module has one of these words
    python tests/mutants.py --jobs 2

Each fault goes into a copy of the library; the process is forked so that
torch and Keras are imported once. The tests must fail (not merely stop
being importable). Exit status 0 if every fault was caught.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "tutorial_lib"
PASSED, FAILED = 0, 1  # pytest's exit codes


def plant(mutant, folder: Path) -> None:
    """Copy the library into `folder` with the fault in it."""
    shutil.copytree(SOURCE, folder / "tutorial_lib", ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is None:
        return
    path = folder / "tutorial_lib" / f"{mutant.module}.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def start(mutant, tests: list[str], log: Path) -> int:
    """Fork a process that runs the tests against the faulty copy; return its id."""
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    plant(mutant, folder)
    process = os.fork()
    if process:
        return process
    status = 3
    try:
        import pytest

        sys.path.insert(0, str(folder))
        with log.open("w") as stream, contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            import tutorial_lib

            if not tutorial_lib.__file__.startswith(str(folder)):
                raise RuntimeError(f"the tests would import {tutorial_lib.__file__}")
            files = [str(ROOT / "tests" / f"test_{name}.py") for name in tests]
            status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *files])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(int(status))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "words", nargs="*", help="only faults whose description or module has one of these words"
    )
    parser.add_argument("--skip", type=int, default=0, help="leave out so many faults of the list")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    arguments = parser.parse_args()
    os.environ.setdefault("KERAS_BACKEND", "torch")
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in ("torch", "keras", "transformers", "hypothesis", "pytest"):
        importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    from mutant_list import MUTANTS

    stale = [m for m in MUTANTS if m.old not in (SOURCE / f"{m.module}.py").read_text(encoding="utf-8")]
    for mutant in stale:
        print(f"STALE     {mutant.module}: {mutant.what}: its text is no longer in the module")
    chosen = [
        m
        for m in MUTANTS[arguments.skip :]
        if m not in stale
        and (not arguments.words or any(word in f"{m.module} {m.what}" for word in arguments.words))
    ]
    logs = Path(tempfile.mkdtemp(prefix="mutants-"))
    everything = sorted({name for m in chosen for name in m.tests})
    waiting = [(None, everything), *((m, list(m.tests)) for m in chosen)]
    running, survivors, began = {}, [], time.time()
    while waiting or running:
        while waiting and len(running) < arguments.jobs and (None not in running.values()):
            mutant, tests = waiting.pop(0)
            running[start(mutant, tests, logs / f"{len(waiting)}.txt")] = mutant
        process, status = os.wait()
        mutant, code = running.pop(process), os.waitstatus_to_exitcode(status)
        if mutant is None:
            if code != PASSED:
                print(f"the tests fail without any fault (pytest's exit code {code}), see {logs}")
                return 2
            print(f"without a fault the tests pass; now {len(chosen)} faults", flush=True)
            continue
        verdict = {PASSED: "SURVIVES", FAILED: "caught"}.get(code, f"BROKEN (exit code {code})")
        if code != FAILED:
            survivors.append(mutant)
        origin = f"#{mutant.number}" if mutant.number else "own"
        print(f"{verdict:9} {origin:4} {mutant.module}: {mutant.what}", flush=True)
    caught = len(chosen) - len(survivors)
    print(f"{caught} of {len(chosen)} faults caught in {time.time() - began:.0f} s")
    if not survivors:
        shutil.rmtree(logs)
    return 1 if survivors or stale else 0


if __name__ == "__main__":
    sys.exit(main())
