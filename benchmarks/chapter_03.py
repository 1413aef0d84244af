"""Chapter 03, too long for its page: the penalty's coefficient, from none to far too much, with five seeds.

    python benchmarks/chapter_03.py                 # a minute or two of CPU
    python benchmarks/chapter_03.py --seeds 0 1     # shows, but stores nothing
"""

from __future__ import annotations

import argparse
import time

from chapters import definitions, store

COEFFICIENTS = (0.0, 0.01, 0.1, 1.0, 10.0)
SEEDS = [0, 1, 2, 3, 4]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    arguments = parser.parse_args()
    chapter = definitions("03")
    start, results = time.process_time(), []
    for coefficient in COEFFICIENTS:
        for seed in arguments.seeds:
            model = chapter.train(seed, coefficient=coefficient)
            row = {"coefficient": coefficient, "seed": seed, **chapter.measure(model, seed)}
            results.append({name: round(value, 4) for name, value in row.items()})
            print(results[-1], flush=True)
    if arguments.seeds == SEEDS:
        seconds = time.process_time() - start
        print(store("hops", "python benchmarks/chapter_03.py", SEEDS, seconds, results))


if __name__ == "__main__":
    main()
