"""Chapter 04's experiment that is too long for its page: do right words mean a right alignment?

    python benchmarks/chapter_04.py            # six seeds for each of two starts

The model, the sentences and the training are the chapter's own cells, those
with the tag `definition`. Writes `src/tutorial_lib/assets/results/alignment_start.json`.
"""

from __future__ import annotations

import argparse
import time

import torch

from chapters import definitions, store

STARTS = {"0.1": "Translator", "1": "LargeStart"}  # standard deviation of the first embeddings: the class


def run(chapter, seed: int) -> dict[str, dict[str, float]]:
    """Train and measure both starts with one seed."""
    train, test = chapter.korean_corpus(seed)
    measured = {}
    for start, name in STARTS.items():
        model = chapter.train_translator(train, chapter.to_english, seed, make=getattr(chapter, name))
        measured[start] = {key: round(value, 4) for key, value in chapter.measure(model, test).items()}
        print(f"seed {seed}  start {start:<3}  {measured[start]}", flush=True)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(6)))
    seeds = parser.parse_args().seeds
    torch.set_num_threads(1)
    chapter = definitions("04")
    started = time.process_time()
    runs = [run(chapter, seed) for seed in seeds]
    results = {start: [measured[start] for measured in runs] for start in STARTS}
    command = "python benchmarks/chapter_04.py"
    print(f"wrote {store('alignment_start', command, seeds, time.process_time() - started, results)}")


if __name__ == "__main__":
    main()
