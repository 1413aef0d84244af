"""Accuracy against source length, too long for the page of chapter 02: writes the stored result "bottleneck".

    python benchmarks/chapter_02.py              # everything that is not in the work folder yet
    python benchmarks/chapter_02.py --seeds 1    # one seed only; several can run beside each other

Each run (a kind of model, a seed) is kept in `_build/chapter_02` as soon as it
is finished, so that an interrupted experiment goes on where it was. When all
are there, they are put together.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
from chapters import ROOT, definitions, store

SEEDS = (0, 1, 2)
LENGTHS = (5, 10, 15, 20, 25, 30, 40)
WORK = ROOT / "_build" / "chapter_02"


def run(chapter, name: str, seed: int) -> dict:
    """Train one model; return its size, its accuracies by length and the CPU seconds."""
    start = time.process_time()
    model = chapter.train(seed=seed, **chapter.RUNS[name])
    seconds = time.process_time() - start
    greedy, whole, forced = zip(*(chapter.accuracy(model, length, count=200) for length in LENGTHS), strict=True)
    return {
        "parameters": chapter.parameters(model),
        "greedy": [round(x, 4) for x in greedy],
        "whole": [round(x, 4) for x in whole],
        "forced": [round(x, 4) for x in forced],
        "seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--runs", nargs="+", help="only these kinds")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chapter = definitions("02")
    WORK.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seeds:
        for name in arguments.runs or chapter.RUNS:
            path = WORK / f"{name.replace(' ', '_')}_{seed}.json"
            if not path.exists():
                result = run(chapter, name, seed)
                path.write_text(json.dumps(result), encoding="utf-8")
                print(name, seed, result, flush=True)
    results, seconds = {}, 0.0
    for name, settings in chapter.RUNS.items():
        paths = [WORK / f"{name.replace(' ', '_')}_{seed}.json" for seed in SEEDS]
        if not all(path.exists() for path in paths):
            print(f"{name} is not complete yet: nothing stored")
            return
        runs = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        seconds += sum(one["seconds"] for one in runs)
        results[name] = {
            "settings": settings,
            "parameters": runs[0]["parameters"],
            "seconds": [one["seconds"] for one in runs],
            **{what: [one[what] for one in runs] for what in ("greedy", "whole", "forced")},
        }
    content = {"lengths": list(LENGTHS), "runs": results}
    print(store("bottleneck", "python benchmarks/chapter_02.py", list(SEEDS), seconds, content))


if __name__ == "__main__":
    main()
