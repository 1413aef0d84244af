"""Exercise pages of the built site: solutions folded, nothing hidden in pages, sources or the search index."""

import re

import pytest
from conftest import ROOT

from tutorial_lib.teaching import collection

SITE = ROOT / "_build" / "site"
pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("site")]  # in CI a missing site is a failure


def hidden_lines():
    """Lines of hidden tests and planted wrong solutions, without those that a chapter has in its own code."""
    chapters = "".join(path.read_text("utf-8") for path in (ROOT / "chapters" / "en").glob("*.md"))
    for source in collection.read_all(ROOT / "exercises", "en"):
        for exercise in source.exercises:
            shown = (
                "\n".join([exercise.start, exercise.answer, exercise.of("test")[0].code])
                if exercise.cells
                else ""
            )
            for cell in (*exercise.of("hidden"), *exercise.of("wrong")):
                for line in cell.code.split("\n"):
                    if len(line.strip()) > 40 and line.strip() not in shown + chapters:
                        yield line.strip()


def test_no_file_of_the_site_holds_a_hidden_test_or_a_planted_wrong_solution():
    lines = set(hidden_lines())
    assert len(lines) > 30
    for path in SITE.rglob("*"):
        if path.suffix in (".html", ".md", ".txt", ".js", ".ipynb", ".json") and "_static" not in path.parts:
            text = re.sub(r"<[^>]+>", "", path.read_text("utf-8"))
            text = text.replace("&gt;", ">").replace("&lt;", "<").replace("&quot;", '"').replace("&#39;", "'")
            text = text.replace("&amp;", "&").replace('\\"', '"')
            for line in lines:
                assert line not in text, f"{path.relative_to(SITE)}: {line}"


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_sources_of_exercises_are_not_published_and_the_notebook_is(language):
    assert not list((SITE / language / "_sources").rglob("exercises/*"))
    assert (SITE / language / "05_exercises.ipynb").read_bytes() == (
        ROOT / "exercises" / language / "05_scaled_dot_product_attention.ipynb"
    ).read_bytes()


@pytest.mark.parametrize("language,hint,solution", [("en", "Hint 1", "Solution"), ("ko", "힌트 1", "풀이")])
def test_hints_come_before_the_folded_solution(language, hint, solution):
    text = (SITE / language / "05_exercises.html").read_text("utf-8")
    folded = re.findall(r"<details.*?</details>", text, re.DOTALL)
    titles = [
        re.sub(r"<[^>]+>|\s+", " ", re.search(r"<summary.*?</summary>", f, re.DOTALL)[0]).strip()
        for f in folded
    ]
    assert any(title.startswith(hint) for title in titles)
    position = {title: number for number, title in reversed(list(enumerate(titles)))}
    assert (
        position[next(t for t in titles if t.startswith(hint))]
        < position[next(t for t in titles if t.startswith(solution))]
    )
    assert not any("open" in re.search(r"<details[^>]*>", f)[0].replace("sd-", "") for f in folded)
