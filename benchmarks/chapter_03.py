"""Chapter 03, too long for its page, with five seeds: the penalty's coefficient, and pooling in place of hops.

    python benchmarks/chapter_03.py                         # about two minutes of CPU
    python benchmarks/chapter_03.py --only hops_or_pooling  # one of the two
    python benchmarks/chapter_03.py --seeds 0 1             # shows, but stores nothing

Writes src/tutorial_lib/assets/results/hops.json and hops_or_pooling.json.
"""

from __future__ import annotations

import argparse
import time

from chapters import definitions, store

SEEDS = [0, 1, 2, 3, 4]
RUNS = {
    "hops": [{"coefficient": c} for c in (0.0, 0.01, 0.1, 1.0, 10.0)],
    "hops_or_pooling": [{"summary": how} for how in ("mean", "max")],
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--only", choices=RUNS)
    arguments = parser.parse_args()
    chapter = definitions("03")
    for name in [arguments.only] if arguments.only else RUNS:
        start, results = time.process_time(), []
        for choices in RUNS[name]:
            for seed in arguments.seeds:
                measured = chapter.measure(chapter.train(seed, **choices), seed)
                row = choices | {"seed": seed} | {key: round(value, 4) for key, value in measured.items()}
                results.append(row)
                print(row, flush=True)
        if arguments.seeds == SEEDS:
            seconds = time.process_time() - start
            print(store(name, f"python benchmarks/chapter_03.py --only {name}", SEEDS, seconds, results))


if __name__ == "__main__":
    main()
