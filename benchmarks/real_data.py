"""Train on real data with three seeds and keep what came out: Tatoeba's Korean-English pairs, NSMC's film reviews.

    python benchmarks/real_data.py --folder runs            # all; goes on where it was stopped
    python benchmarks/real_data.py --folder runs --only tatoeba

Writes benchmarks/results/real_data.json after every run. Each run is a command
of `tutorial-lib train`, and stands there as one can type it. The data are
looked for in TUTORIAL_LIB_DATA first and downloaded otherwise.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from measuring import FOLDER

from tutorial_lib.checkpoints import write_json

RESULTS = FOLDER / "real_data.json"
SEEDS = (0, 1, 2)
CLASSIFIER = "classifier --vocabulary 4000 --peak 1e-3 --warmup 90 --valid 1000 --dropout 0.2"
JOBS = {
    "tatoeba": "translation --data tatoeba --vocabulary 2000 --width 128 --hidden 256 --updates 1500 --peak 1.5e-3 "
    "--warmup 200 --dropout 0.3 --evaluate-every 150 --save-every 150",
    "nsmc-small": f"{CLASSIFIER} --data nsmc-small --updates 900",
    "nsmc": f"{CLASSIFIER} --data nsmc --updates 3000 --evaluate-every 500",
}
KEPT = ("command", "date", "seed", "machine", "versions", "seconds", "data", "best", "test")


def arguments_of(job: str, seed: int, folder: Path) -> list[str]:
    """The words after `tutorial-lib`."""
    return ["train", *JOBS[job].split(), "--cpu", "--seed", str(seed), "--folder", str(folder)]


def collect(folder: Path) -> list[dict]:
    """What is kept of every run that is finished, in the order of jobs and seeds."""
    rows = []
    for job in JOBS:
        for seed in SEEDS:
            path = folder / f"{job}-{seed}" / "results.json"
            if path.exists():
                found = json.loads(path.read_text(encoding="utf-8"))
                rows.append({"job": job, **{name: found[name] for name in KEPT}})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the runs live")
    parser.add_argument(
        "--only", choices=JOBS, action="append", help="this job alone; may stand several times"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the JSON goes")
    arguments = parser.parse_args()
    for job in arguments.only or JOBS:
        for seed in SEEDS:
            run = arguments.folder / f"{job}-{seed}"
            if not (run / "results.json").exists():
                words = arguments_of(job, seed, run)
                subprocess.run([sys.executable, "-m", "tutorial_lib.cli", *words, "--quiet"], check=True)
            write_json(arguments.out, collect(arguments.folder))


if __name__ == "__main__":
    main()
