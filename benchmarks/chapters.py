"""The code of a chapter, outside its page: with other seeds, or for experiments that are too long for it.

A chapter sets its seed once, in a line `seed = 0`; cells with the tag
`definition` define what an experiment needs.
"""

from __future__ import annotations

import datetime
import json
import platform
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import jupytext

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "src" / "tutorial_lib" / "assets" / "results"
SEED = "seed = 0"


def source(number: str) -> Path:
    """Find the English source of a chapter, "02" say; the Korean edition has the same code."""
    found = sorted(ROOT.glob(f"chapters/en/{number}_*.md"))
    if not found:
        raise ValueError(f"there is no chapter {number!r} in chapters/en")
    return found[0]


def cells(number: str) -> list:
    """Read the code cells of a chapter, in order."""
    return [cell for cell in jupytext.read(source(number)).cells if cell.cell_type == "code"]


def with_seed(code: str, seed: int) -> str:
    """Put another seed in place of the chapter's own."""
    return "\n".join(
        f"seed = {seed}" if line.split("#")[0].strip() == SEED else line for line in code.split("\n")
    )


def definitions(number: str) -> SimpleNamespace:
    """Run the cells of a chapter that carry the tag `definition`; return what they define."""
    names: dict = {"__name__": f"chapter_{number}"}
    marked = [cell.source for cell in cells(number) if "definition" in cell.metadata.get("tags", [])]
    if not marked:
        raise ValueError(f"no cell of chapter {number} carries the tag 'definition'")
    for code in marked:
        exec(compile(code, str(source(number)), "exec"), names)
    return SimpleNamespace(**names)


def cpu() -> str:
    """Name the processor."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().split("\n") if information.exists() else []
    named = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def store(name: str, command: str, seeds: list[int], seconds: float, results: dict | list) -> Path:
    """Write the results of an experiment to where `tutorial_lib.data.stored_results` reads them."""
    STORED.mkdir(parents=True, exist_ok=True)
    content = {
        "command": command,
        "date": str(datetime.date.today()),
        "machine": cpu(),
        "versions": {"python": platform.python_version(), "torch": version("torch")},
        "seconds": round(seconds),
        "seeds": seeds,
        "results": results,
    }
    path = STORED / f"{name}.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
