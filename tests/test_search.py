"""Korean search finds a word whatever particle it carries, and nothing else; tried in the browser."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml
from browser import ROOT, open_page
from sphinx.testing.util import SphinxTestApp

pytestmark = pytest.mark.browser

HERE = Path(__file__).parent
QUERIES = yaml.safe_load((HERE / "search_queries.yml").read_text(encoding="utf-8"))
# What the page's own search answers, by the names of the pages.
ASK = """(query) => {
    const parsed = Search._parseQuery(query);
    return [...new Set(Search._performSearch(...parsed).map((result) => result[0]))];
}"""


@pytest.fixture(scope="module")
def small(browser, tmp_path_factory):
    """The search page of a small Korean book, built with the book's own search extension."""
    folder = tmp_path_factory.mktemp("small")
    pages = yaml.safe_load((HERE / "search_pages.yml").read_text(encoding="utf-8"))
    for name, text in pages.items():
        (folder / f"{name}.rst").write_text(f"{name}\n{'=' * len(name)}\n\n{text}\n", encoding="utf-8")
    (folder / "index.rst").write_text("index\n=====\n\n.. toctree::\n\n   " + "\n   ".join(pages) + "\n")
    (folder / "conf.py").write_text("")
    app = SphinxTestApp(srcdir=folder, confoverrides={"extensions": ["search_ko"], "language": "ko"})
    app.build()
    output = Path(app.outdir)
    app.cleanup()
    with open_page(browser, (output / "search.html").as_uri()) as (page, _):
        page.wait_for_function("typeof Search !== 'undefined' && Search.hasIndex()")
        yield page
    shutil.rmtree(output)


@pytest.fixture(scope="module")
def book(browser, site):
    with open_page(browser, f"{site}/ko/search.html") as (page, _):
        page.wait_for_function("typeof Search !== 'undefined' && Search.hasIndex()")
        yield page


def check(page, query, expected):
    pages = set(page.evaluate(ASK, query))
    assert set(expected["found"]) <= pages
    assert not pages & set(expected["not"])
    if not expected["found"]:
        assert not pages


@pytest.mark.parametrize("query", QUERIES["small"])
def test_a_small_book_is_searched_right(small, query):
    check(small, query, QUERIES["small"][query])


@pytest.mark.parametrize("query", QUERIES["book"])
def test_the_book_is_searched_right(book, query):
    check(book, query, QUERIES["book"][query])


def test_enough_queries_are_kept():
    assert len(QUERIES["small"]) + len(QUERIES["book"]) >= 60 and len(QUERIES["book"]) >= 20


def test_the_page_shows_what_was_found_and_where(browser, site):
    """Typed as a reader types: results, an extract with the word in it, and no complaint."""
    with open_page(browser, f"{site}/ko/search.html?q={quote('배가')}") as (page, log):
        page.wait_for_selector("#search-results li a")
        page.wait_for_selector("#search-results .context")
        assert "배" in page.locator("#search-results .context").first.inner_text()
        assert "페이지를 찾았습니다" in page.locator(".search-summary").inner_text()
        first = page.locator("#search-results li a").first.get_attribute("href")
        assert page.request.get(f"{site}/ko/{first}").ok
        assert log.complaints == []


def test_english_search_works_as_before(browser, site):
    with open_page(browser, f"{site}/en/search.html?q=notation") as (page, _):
        page.wait_for_selector("#search-results li a")
        links = page.evaluate(
            "[...document.querySelectorAll('#search-results li a')].map(a => a.getAttribute('href'))"
        )
        assert any(link.startswith("notation.html") for link in links)
        assert (ROOT / "_build/site/en" / links[0].split("#")[0].split("?")[0]).exists()
