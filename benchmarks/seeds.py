"""Run a chapter again with other seeds: do its claims hold there too?

    python benchmarks/seeds.py 02               # seeds 1, 2 and 3
    python benchmarks/seeds.py 02 --seeds 7 8

Every cell runs in order, in a process of its own for each seed, with the
chapter's line `seed = 0` replaced. An assertion that fails is a claim that
does not hold. Prints what the cells with trained numbers printed, CPU seconds
and the highest memory use.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import resource
import subprocess
import sys
import time
import traceback

from chapters import SEED, cells, with_seed

MARK = "nbval-ignore-output"


def run(number: str, seed: int) -> int:
    """Execute the chapter in this process; return how many cells failed."""
    codes = cells(number)
    if not any(with_seed(cell.source, -1) != cell.source for cell in codes):
        print(f"chapter {number} has no line '{SEED}': its seeds are written out where they are used")
        return 1
    names: dict = {"__name__": "__main__"}
    failed = 0
    for index, cell in enumerate(codes, 1):
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(with_seed(cell.source, seed), f"<cell {index}>", "exec"), names)
        except Exception:
            failed += 1
            print(f"cell {index} FAILED\n{cell.source}\n{traceback.format_exc(limit=-2)}")
        if MARK in cell.metadata.get("tags", []) and printed.getvalue():
            print(f"cell {index}:\n{printed.getvalue().rstrip()}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    seconds = time.process_time()
    print(f"seed {seed}: {failed} of {len(codes)} cells failed, {seconds:.0f} s CPU, {peak:.1f} GiB")
    return failed


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("chapter", help="number of the chapter, two digits")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--here", action="store_true", help="run the first seed in this process")
    arguments = parser.parse_args()
    if arguments.here:
        sys.exit(min(run(arguments.chapter, arguments.seeds[0]), 1))
    failed = []
    for seed in arguments.seeds:
        command = [sys.executable, __file__, arguments.chapter, "--seeds", str(seed), "--here"]
        if subprocess.run(command, env=os.environ | {"MPLBACKEND": "agg"}).returncode:
            failed.append(seed)
    if failed:
        sys.exit(f"chapter {arguments.chapter}: claims do not hold with seeds {failed}")
    print(f"chapter {arguments.chapter}: every claim holds with seeds {arguments.seeds}")


if __name__ == "__main__":
    main()
