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

# On a Python for which no torch is installed, what needs it, a file or a single test, is skipped.
WITHOUT_TORCH = importlib.util.find_spec("torch") is None
if WITHOUT_TORCH:

    class SkipWithoutTorch:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "torch":
                pytest.skip("needs torch", allow_module_level=True)

    sys.meta_path.insert(0, SkipWithoutTorch)


def pytest_report_header(config):
    return "torch is not installed: what needs it is skipped" if WITHOUT_TORCH else None


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
