"""`make lock`: constraints.txt from a fresh environment, so that it holds what the project needs and nothing else.

No hashes: the CPU build of torch has none on a package index. The pin of torch stays as it is unless it is
changed by hand, because a newer release may bring a CUDA build of several gigabytes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "constraints.txt"


def main() -> None:
    torch = next(line for line in LOCK.read_text().splitlines() if line.startswith("torch=="))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = Path(folder) / "bin" / "python"
        pin = Path(folder) / "torch.txt"
        pin.write_text(torch + "\n")
        subprocess.run([python, "-m", "pip", "install", "--quiet", torch], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--constraint", pin, f"{ROOT}[book,teach,test]"],
            check=True,
        )
        frozen = subprocess.run(
            [python, "-m", "pip", "freeze", "--exclude", "tutorial-lib"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    LOCK.write_text(re.sub(r"^(torch==[\d.]+)\+\w+$", r"\1", frozen, flags=re.MULTILINE), encoding="utf-8")


if __name__ == "__main__":
    main()
