"""How every benchmark of this folder measures: candidates in turns within one process, and their ratios.

One thread and CPU time. In every round each candidate runs once, in an order
that rotates from round to round; a ratio is taken within a round, and what is
reported is the median and the quartiles. Below about 5 % a ratio means nothing.
"""

from __future__ import annotations

import json
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).parent / "results"


def in_turns(runs: dict[str, Callable], rounds: int, *, seconds: float = 0.0) -> dict[str, list[float]]:
    """Return the CPU seconds of every candidate in every round.

    Args:
        runs: what to call, by name.
        rounds: how many rounds at least.
        seconds: go on until so much CPU time is used, for at most 200 rounds.
    """
    names = list(runs)
    for name in names:  # the first calls plan and allocate
        runs[name]()
    times: dict[str, list[float]] = {name: [] for name in names}
    began, number = time.process_time(), 0
    while number < rounds or (time.process_time() - began < seconds and number < 200):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            start = time.process_time()
            runs[name]()
            times[name].append(time.process_time() - start)
        number += 1
    return times


def ratio(over: list[float], under: list[float]) -> tuple[float, list[float]]:
    """Return the median and the quartiles of the ratios, round by round."""
    each = [a / b for a, b in zip(over, under, strict=True)]
    low, median, high = statistics.quantiles(each, n=4)
    return round(median, 3), [round(low, 3), round(high, 3)]


def processor() -> str:
    """The name of this machine's processor."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def store(path: Path, rows: list[dict], setting: dict, modules: tuple, began: float) -> None:
    """Write the rows with what they depend on: command, setting, clock, processor, versions, seconds."""
    content = {
        "command": shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "setting": setting,
        "clock": "time.process_time, one thread",
        "processor": processor(),
        "seconds": round(time.process_time() - began),
        "versions": {module.__name__: module.__version__ for module in modules},
        "rows": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
