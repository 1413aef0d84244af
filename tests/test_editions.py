"""The two editions are one book: the same pages, labels, headings and code; words in their own language."""

import re

import pytest
import yaml
from conftest import ROOT

LABEL = re.compile(r"^\(([\w-]+)\)=$", re.MULTILINE)
PAGES = sorted(
    path.relative_to(ROOT / top / "en")
    for top in ("chapters", "book", "exercises")
    for path in (ROOT / top / "en").glob("*.md")
)
TWINS = [
    (ROOT / top / "en" / page.name, ROOT / top / "ko" / page.name)
    for page in sorted(set(PAGES))
    for top in ("chapters", "book", "exercises")
    if (ROOT / top / "en" / page.name).exists()
]
twins = pytest.mark.parametrize(
    "english,korean", TWINS, ids=[f"{english.parts[-3]}-{english.stem}" for english, _ in TWINS]
)


def blocks(text):
    """The code cells with their options, and the text without any code."""
    cell = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return cell.findall(text), re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@twins
def test_the_code_is_the_same_byte_for_byte(english, korean):
    assert blocks(english.read_text("utf-8"))[0] == blocks(korean.read_text("utf-8"))[0]


@twins
def test_labels_and_headings_stand_in_the_same_order(english, korean):
    def skeleton(path):
        text = blocks(path.read_text("utf-8"))[1]
        return re.findall(r"^(?:\(([\w-]+)\)=|(#{1,4}) .*)$", text, re.MULTILINE)

    assert skeleton(english) == skeleton(korean)


@twins
def test_every_heading_of_the_first_two_levels_has_a_label(english, korean):
    for path in (english, korean):
        lines = blocks(path.read_text("utf-8"))[1].split("\n")
        for before, line in zip(["", *lines], lines, strict=False):
            if re.match(r"##? ", line):
                assert LABEL.match(before), f"{path.name}: no label before {line!r}"
                assert "$" not in line, f"{path.name}: mathematics in the heading {line!r}"


@twins
def test_boxes_figures_and_shown_sources_are_the_same(english, korean):
    def skeleton(path):
        text = path.read_text("utf-8")
        return re.findall(r"^(?::{3,}|`{3,})\{([\w-]+)\}|^:(class|pyobject): (\S+)$", text, re.MULTILINE)

    assert skeleton(english) == skeleton(korean)


@twins
def test_formulas_are_the_same(english, korean):
    def formulas(path):
        return re.findall(r"^\$\$\n(.*?)\n\$\$", path.read_text("utf-8"), re.MULTILINE | re.DOTALL)

    without_words = [
        [re.sub(r"\\text\{[^}]*\}", "", f) for f in formulas(path)] for path in (english, korean)
    ]
    assert without_words[0] == without_words[1]


@twins
def test_prose_is_in_the_language_of_the_edition(english, korean):
    def share(path):
        text = re.sub(
            r"`[^`]*`|\$[^$]*\$|\]\([^)]*\)|\*[^*\n]+\*|^\(.*\)=$|^:\w+:",
            "",
            blocks(re.sub(r"\A---\n.*?\n---\n", "", path.read_text("utf-8"), flags=re.DOTALL))[1],
            flags=re.MULTILINE,
        )
        letters = [c for c in text if c.isalpha()]
        return sum("가" <= c <= "힣" for c in letters) / len(letters)

    assert share(english) < 0.1, f"{english}: {share(english):.0%} of the letters are Hangul"
    assert share(korean) > 0.6, f"{korean}: only {share(korean):.0%} of the letters are Hangul"


def test_labels_are_unique_in_an_edition():
    for side in (0, 1):
        labels = [label for pair in TWINS for label in LABEL.findall(pair[side].read_text("utf-8"))]
        assert len(labels) == len(set(labels))


def test_both_tables_of_contents_hold_the_same_pages():
    english = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    korean = yaml.safe_load((ROOT / "book/ko/_toc.yml").read_text("utf-8"))

    def files(toc):
        return [toc["root"], *(chapter["file"] for part in toc["parts"] for chapter in part["chapters"])]

    assert [name.replace("/en/", "/ko/") for name in files(english)] == files(korean)
    listed = {f"{name}.md" for toc in (english, korean) for name in files(toc)}
    written = {str(path.relative_to(ROOT)) for pair in TWINS for path in pair}
    assert listed == written


def test_every_mapped_row_has_its_section():
    """Rows of the source documents' inventory, by number, and the section that teaches, shows or corrects them."""
    rows = yaml.safe_load((ROOT / "book/coverage.yml").read_text("utf-8"))
    labels = {label for english, _ in TWINS for label in LABEL.findall(english.read_text("utf-8"))}
    assert rows and all(isinstance(number, int) and 1 <= number <= 189 for number in rows)
    assert set(rows.values()) <= labels
