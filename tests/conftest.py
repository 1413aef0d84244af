"""What the tests share: where things are, and what a machine may lack."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

# One thread, before torch is imported: a process forked after OpenMP has started others waits for them for ever,
# and pytest's workers keep the cores busy as it is.
os.environ["OMP_NUM_THREADS"] = "1"

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "book"), str(ROOT / "book" / "ext")]

from browser import CHROMIUM_FLAGS, SITE, chromium_path, serve  # noqa: E402  (needs the path)
from needed import require  # noqa: E402

# On a Python for which no torch is installed, the files that need it are left out, and the header says so.
WITHOUT_TORCH = importlib.util.find_spec("torch") is None
collect_ignore = []
if WITHOUT_TORCH:
    for path in sorted((ROOT / "tests").glob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "import torch" in text or "import keras" in text:
            collect_ignore.append(path.name)


def pytest_report_header(config):
    if WITHOUT_TORCH:
        return f"torch is not installed: left out {', '.join(collect_ignore)}"
    return None


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


def chapter_sources(language: str) -> list[Path]:
    """The chapters' sources of one edition, in order."""
    return sorted((ROOT / "chapters" / language).glob("[0-9][0-9]_*.md"))


@pytest.fixture(scope="module")
def browser():
    """Chromium, for the tests of one file."""
    path = chromium_path()
    require(
        path is not None,
        "Chromium is missing (Debian: apt install chromium-headless-shell), so nothing was tried in it.",
    )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def site():
    """The address of the built site on this machine."""
    require((SITE / "index.html").exists(), "There is no site: run `make book` first.")
    with serve() as address:
        yield address
