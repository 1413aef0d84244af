"""`make test-python PYTHON=python3.13`: on another Python, all that needs no torch installs and its tests pass.

torch is left out because its build for that Python may not be at hand; keras comes along but needs a backend
to be imported, so its tests are left out too.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDS_TORCH = ("torch", "accelerate")  # these would bring torch's own package, with CUDA


def main() -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    venv = ROOT / f".venv-{version}"
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        requirement
        for group in (project["dependencies"], *project["optional-dependencies"].values())
        for requirement in group
        if not requirement.startswith(NEEDS_TORCH)
    ]
    constraints = venv / "constraints.txt"
    lock = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    constraints.write_text("\n".join(line for line in lock if not line.startswith(NEEDS_TORCH)) + "\n")
    pip = [python, "-m", "pip", "install", "--quiet", "--constraint", constraints]
    subprocess.run([*pip, *wanted], check=True)
    subprocess.run([*pip, "--no-deps", "--editable", ROOT], check=True)
    subprocess.run([python, "-m", "compileall", "-q", ROOT / "src", ROOT / "book"], check=True)
    sys.exit(
        subprocess.run(
            [python, "-m", "pytest", "-q", "-m", "not browser and not slow", ROOT / "tests"], cwd=ROOT
        ).returncode
    )


if __name__ == "__main__":
    main()
