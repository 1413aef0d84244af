"""Chapter 04's experiment that is too long for its page: does a right translation mean a right alignment?

    python benchmarks/chapter_04.py            # six seeds for each of two starts

The model, the sentences and the training are the chapter's own cells, those
with the tag `definition`. Writes `src/tutorial_lib/assets/results/alignment_start.json`.
"""

from __future__ import annotations

import argparse
import time

import torch

from chapters import definitions, store


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(6)))
    seeds = parser.parse_args().seeds
    torch.set_num_threads(1)
    chapter = definitions("04")
    started = time.process_time()
    results: dict[str, list[dict[str, float]]] = {}
    for start, make in (("0.1", chapter.Translator), ("1", chapter.LargeStart)):
        results[start] = []
        for seed in seeds:
            train, test = chapter.korean_corpus(seed)
            model = chapter.train_translator(train, chapter.to_english, seed, make=make)
            measured = {name: round(value, 4) for name, value in chapter.measure(model, test).items()}
            results[start].append(measured)
            print(f"start {start:<3} seed {seed}  {measured}", flush=True)
    path = store(
        "alignment_start", "python benchmarks/chapter_04.py", seeds, time.process_time() - started, results
    )
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
