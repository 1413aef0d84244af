"""Freeze the corpus that chapter 01 measures on: `python book/corpus.py` (once; `--again` to replace it).

Takes the Korean prose of a few pages of this book, one sentence per line. The
result is frozen on purpose: a chapter may be reworded later without changing
the figures that were measured on its earlier wording.
"""

from __future__ import annotations

import argparse
import re
import sys
import unicodedata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "src/tutorial_lib/assets"
SOURCES = {
    "train": ["book/ko/index.md", "book/ko/notation.md", "chapters/ko/01_*.md"],
    "heldout": ["chapters/ko/05_*.md"],
}
MINIMUM_BYTES = 30_000
HANGUL = re.compile("[가-힣]")
SENTENCE_END = re.compile(r"(?:(?<=[.?!])(?<!al\.)|(?<=[.?!][\"'”’)]))\s+")
LEFT_OVER_MARKS = ("`", "$", "](", "**", ":::", "|", "#", "{", "\\", "http")


def prose(markdown: str) -> list[str]:
    """Return the paragraphs of a MyST page, without code, tables, formulas and marks."""
    text = unicodedata.normalize("NFC", markdown)
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)  # front matter
    text = re.sub(
        r"^(`{3,}|~{3,}).*?^\1`*\s*$", "\n", text, flags=re.S | re.M
    )  # code cells, fenced directives
    text = re.sub(r"^:::\{(?:math|figure|literalinclude)\}.*?^:::\s*$", "\n", text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"^\s*\$\$.*?\$\$.*?$", "\n", text, flags=re.S | re.M)
    text = re.sub(r"^:{3,}.*$|^:[\w-]+:.*$", "\n", text, flags=re.M)  # directives and their options
    text = re.sub(r"^\([\w-]+\)=\s*$", "\n", text, flags=re.M)  # labels
    text = re.sub(r"^\s*\|.*$", "\n", text, flags=re.M)  # tables
    text = re.sub(r"^(#+)\s+(.*)$", r"\n\2\n", text, flags=re.M)  # headings
    text = re.sub(r"^\s*(?:[-*+]|\d+\.)\s+", "\n", text, flags=re.M)  # list items
    text = re.sub(r"^>\s?", "", text, flags=re.M)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\{[\w:-]+\}`[^`]*`", "", text)  # roles
    text = re.sub(r"<https?://[^>]*>", "", text)
    text = re.sub(r"\$[^$\n]+\$", "x", text)  # the sentence around a formula stays a sentence
    text = re.sub(r"`([^`]*)`", r"\1", text)
    text = re.sub(r"(\*{1,3})(?=\S)(.+?)(?<=\S)\1", r"\2", text)
    return [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]


def sentences(markdown: str) -> list[str]:
    """Return the sentences with Hangul, in order, each once."""
    found = [
        sentence
        for paragraph in prose(markdown)
        for sentence in SENTENCE_END.split(paragraph)
        if HANGUL.search(sentence) and not any(mark in sentence for mark in LEFT_OVER_MARKS)
    ]
    return list(dict.fromkeys(found))


def corpus() -> dict[str, list[str]]:
    """Return the sentences of both parts; no sentence is in both.

    Raises:
        FileNotFoundError: if a source page is missing.
    """
    parts: dict[str, list[str]] = {}
    for part, patterns in SOURCES.items():
        parts[part] = []
        for pattern in patterns:
            pages = sorted(ROOT.glob(pattern))
            if not pages:
                raise FileNotFoundError(f"no page matches {pattern}")
            for page in pages:
                parts[part] += sentences(page.read_text(encoding="utf-8"))
    train = list(dict.fromkeys(parts["train"]))
    return {"train": train, "heldout": [s for s in dict.fromkeys(parts["heldout"]) if s not in set(train)]}


def main(arguments: list[str] | None = None) -> int:
    """Write the two files, unless they exist and `--again` is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--again", action="store_true", help="replace the frozen corpus")
    again = parser.parse_args(arguments).again
    files = {part: ASSETS / f"corpus_ko_{part}.txt" for part in SOURCES}
    existing = [path.name for path in files.values() if path.exists()]
    if existing and not again:
        print(f"{', '.join(existing)} exist and are frozen; say --again to replace them", file=sys.stderr)
        return 1
    texts = {part: "\n".join(lines) + "\n" for part, lines in corpus().items()}
    size = sum(len(text.encode("utf-8")) for text in texts.values())
    if size < MINIMUM_BYTES:
        print(
            f"the pages hold {size} bytes of Korean prose, expected {MINIMUM_BYTES} or more", file=sys.stderr
        )
        return 1
    for part, text in texts.items():
        files[part].write_text(text, encoding="utf-8", newline="\n")
        print(f"{files[part].name}: {text.count(chr(10))} sentences, {len(text.encode('utf-8'))} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
