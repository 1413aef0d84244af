"""Builds the book: `python book/build.py site|notebooks|preview`, called by the Makefile.

execute     run the chapters that are not in the cache, in parallel
site        execute, then both editions and the landing page into _build/site
notebooks   execute, then write the .ipynb beside each .md
preview     one chapter, in both editions
linkcheck   ask every external link of both editions
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "book"), str(ROOT / "book" / "ext")]

SITE = ROOT / "_build" / "site"
LANGUAGES = ("en", "ko")
CHAPTER_SECONDS = 180  # a cell that takes longer than this is stuck


def chapters(language: str = "en") -> list[Path]:
    """The chapters' sources, in order."""
    return sorted((ROOT / "chapters" / language).glob("[0-9][0-9]_*.md"))


def check_twins() -> None:
    """Stop when a chapter's cells differ between the languages: one execution must serve both."""
    from notebooks import read_source

    for path in chapters():
        cells = []
        for twin in (path, ROOT / "chapters" / "ko" / path.name):
            if not twin.exists():
                sys.exit(f"{twin.relative_to(ROOT)} is missing: every chapter exists in both languages")
            cells.append([cell for cell in read_source(twin).cells if cell.cell_type == "code"])
        english, korean = ([(cell.source, cell.metadata) for cell in side] for side in cells)
        for number, (one, other) in enumerate(zip(english, korean, strict=False), start=1):
            if one != other:
                sys.exit(
                    f"{path.stem}: code cell {number} is not the same in both languages:\n{one[0]}\n---\n{other[0]}"
                )
        if len(english) != len(korean):
            sys.exit(f"{path.stem}: {len(english)} code cells in English, {len(korean)} in Korean")


def execute() -> Path:
    """Run every chapter that the cache does not hold; return the cache's folder.

    One language is enough, because the other has the same cells.
    """
    from editions import cache_folder
    from jupyter_cache import get_cache
    from jupyter_cache.executors import load_executor

    os.environ["OMP_NUM_THREADS"] = "1"  # chapters run beside each other; the cores are taken
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["PYTHONUTF8"] = "1"
    folder = cache_folder()
    for old in sorted(folder.parent.glob("*")) if folder.parent.exists() else []:
        if old != folder:
            shutil.rmtree(old)
    check_twins()
    cache = get_cache(folder)
    for record in cache.list_project_records():
        cache.remove_nb_from_project(record.pk)
    for path in chapters():
        cache.add_nb_to_project(str(path), read_data={"name": "myst_nb_md", "type": "plugin"})
    waiting = [
        record for record in cache.list_project_records() if cache.get_cached_project_nb(record.uri) is None
    ]
    if not waiting:
        return folder
    print(f"executing {', '.join(Path(record.uri).stem for record in waiting)}", flush=True)
    result = load_executor("local-parallel", cache, logger=logging.getLogger("execute")).run_and_cache(
        timeout=CHAPTER_SECONDS
    )
    failed = result.excepted + result.errored
    for record in cache.list_project_records():
        if record.uri in failed:
            print(f"{record.uri} failed:\n{record.traceback or 'no traceback'}", file=sys.stderr)
    if failed:
        sys.exit(f"{len(failed)} chapter(s) did not run to the end")
    return folder


def build_edition(language: str, strict: bool, builder: str = "html") -> int:
    """One edition into _build/site/<language>; meant for a process of its own."""
    from jupyter_book.sphinx import build_sphinx

    overrides = (
        {} if language == "en" else yaml.safe_load((ROOT / "book/ko/_config.yml").read_text(encoding="utf-8"))
    )
    status = build_sphinx(
        ROOT,
        SITE / language if builder == "html" else ROOT / "_build" / builder / language,
        builder=builder,
        path_config=ROOT / "_config.yml",
        noconfig=True,
        confoverrides={
            "latex_individualpages": False,  # Jupyter Book asks for it whatever the builder is
            "external_toc_path": str(ROOT / overrides.pop("external_toc_path", "_toc.yml")),
            **overrides,
            **({"nitpicky": True} if strict else {}),
        },
        doctreedir=ROOT / "_build" / "doctrees" / language,
        warningiserror=strict,
        keep_going=strict,
        quiet=True,
    )
    return status if isinstance(status, int) else 1


def build_editions(strict: bool) -> None:
    """Both editions beside each other, each in its own process (docutils keeps its state in globals)."""
    command = [sys.executable, __file__, "edition", *(["--strict"] if strict else [])]
    environment = os.environ | {"PYTHONUTF8": "1"}
    running = {
        language: subprocess.Popen([*command, "--language", language], env=environment)
        for language in LANGUAGES
    }
    failed = [language for language, process in running.items() if process.wait() != 0]
    if failed:
        for language in failed:  # the next build must not take the failed one's pages for good
            shutil.rmtree(ROOT / "_build" / "doctrees" / language, ignore_errors=True)
        sys.exit(f"the edition(s) {', '.join(failed)} were not built")


def write_landing() -> None:
    """The page that lets a person choose a language, and the one for addresses that do not exist."""
    from home import home, pages_url

    base = "/" + pages_url(home()).split("/", 3)[3]
    for name in ("index.html", "404.html"):
        page = (ROOT / "book" / "landing" / name).read_text(encoding="utf-8")
        (SITE / name).write_text(page.replace("{{ base }}", base), encoding="utf-8")
    (SITE / ".nojekyll").touch()  # GitHub Pages would leave out _static


def site(strict: bool) -> None:
    start = time.monotonic()
    execute()
    SITE.mkdir(parents=True, exist_ok=True)
    build_editions(strict)
    write_landing()
    print(f"{SITE / 'index.html'} ({time.monotonic() - start:.0f} s). To read it: make serve")


def preview(number: str) -> None:
    """Rebuild what changed, and say where the chapter is."""
    found = [path for path in chapters() if path.name.startswith(f"{number.zfill(2)}_")]
    if not found:
        sys.exit(f"CHAPTER must be one of {', '.join(path.name[:2] for path in chapters())}, got {number!r}")
    for language, toc in (("en", "_toc.yml"), ("ko", "book/ko/_toc.yml")):
        name = f"chapters/{language}/{found[0].stem}"
        if name not in (ROOT / toc).read_text(encoding="utf-8"):
            sys.exit(f"{name} is not in {toc}, so it would have no page: add it there first")
    site(strict=False)
    for language in LANGUAGES:
        print(SITE / language / f"{found[0].stem}.html")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["execute", "edition", "site", "notebooks", "preview", "linkcheck"])
    parser.add_argument("--strict", action="store_true", help="a warning of the build is an error")
    parser.add_argument("--no-solutions", action="store_true", help="leave out the exercises' solutions")
    parser.add_argument("--language", choices=LANGUAGES)
    parser.add_argument("--chapter", default="")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    if arguments.no_solutions:
        os.environ["BOOK_SOLUTIONS"] = "0"
    if arguments.what == "execute":
        execute()
    elif arguments.what == "edition":
        sys.exit(build_edition(arguments.language, arguments.strict))
    elif arguments.what == "site":
        site(arguments.strict)
    elif arguments.what == "preview":
        preview(arguments.chapter)
    elif arguments.what == "linkcheck":
        execute()
        sys.exit(max(build_edition(language, False, "linkcheck") for language in LANGUAGES))
    else:
        from notebooks import write_all

        from tutorial_lib.teaching import collection

        exercises = collection.write_all(ROOT / "exercises", ROOT / "src/tutorial_lib/assets")
        for path in [*write_all(execute()), *exercises]:
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
