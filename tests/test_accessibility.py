"""Every page of the built site: axe's findings, requests to other hosts, complaints, and a phone's width."""

from __future__ import annotations

import pytest
from browser import LANGUAGES, open_page, toc_pages, wait_for_mathematics

pytestmark = pytest.mark.browser

PAGES = [(language, page) for language in LANGUAGES for page in [*toc_pages(language), "search.html"]]


@pytest.fixture(scope="module")
def axe():
    from axe_playwright_python.sync_playwright import Axe

    return Axe()


MARK_REPEATED_CODE = """() => {
    const seen = new Set();
    for (const block of document.querySelectorAll('.highlight')) {
        if (!block.checkVisibility()) continue;  // folded: axe passes over it, so it must not stand for others
        const place = block.closest('.cell_output') ? 'output' : 'code';
        const kinds = [place, ...[...block.querySelectorAll('span[class]')].map(span => place + span.className)];
        block.toggleAttribute('data-no-new-colour', kinds.every(kind => seen.has(kind)));
        kinds.forEach(kind => seen.add(kind));
    }
}"""


def violations(axe, page) -> list[dict]:
    """What axe finds on a page.

    It looks at the contrast of every single word of code, most of a minute for a chapter. So contrast is
    looked at where a kind of word (a keyword, a number) appears for the first time.
    """
    page.evaluate(MARK_REPEATED_CODE)
    shared = {"resultTypes": ["violations"]}  # without the list of all that is right
    rest = axe.run(page, options={**shared, "rules": {"color-contrast": {"enabled": False}}})
    contrast = axe.run(
        page,
        context={"exclude": [["[data-no-new-colour]"]]},
        options={**shared, "runOnly": ["color-contrast"]},
    )
    return rest.response["violations"] + contrast.response["violations"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("language,name", PAGES)
def test_every_page_is_whole_and_accessible(site, browser, axe, language, name, theme):
    """Right language, no request to another host, no complaint in the console, no finding of axe."""
    with open_page(browser, color_scheme=theme, viewport={"width": 1280, "height": 900}) as (page, log):
        page.goto(f"{site}/{language}/{name}")
        wait_for_mathematics(page)
        assert page.evaluate("document.documentElement.lang") == language
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        strangers = [url for url in log.requests if not url.startswith((site, "data:", "blob:"))]
        assert strangers == []
        assert log.complaints == []
        findings = violations(axe, page)
        assert [(f["id"], [node["html"][:200] for node in f["nodes"][:3]]) for f in findings] == []


@pytest.mark.parametrize("name", ["index.html#choose", "404.html"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_landing_and_lost_pages_are_accessible(site, browser, axe, name, theme):
    with open_page(browser, f"{site}/{name}", color_scheme=theme) as (page, log):
        assert violations(axe, page) == []
        assert log.complaints == []


@pytest.mark.parametrize("language,name", PAGES)
def test_on_a_phone_only_tables_formulas_and_code_scroll_sideways(site, browser, language, name):
    with open_page(browser, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True) as (
        page,
        _,
    ):
        page.goto(f"{site}/{language}/{name}")
        wait_for_mathematics(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        wide = page.evaluate(
            """() => [...document.querySelectorAll('.bd-article *')]
                .filter(e => e.scrollWidth > e.clientWidth + 1 && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX))
                .filter(e => !e.matches('pre, .highlight, .math, mjx-container, mjx-assistive-mml, .cell_output, .output, [class*=table]'))
                .map(e => e.outerHTML.slice(0, 120))"""
        )
        assert wide == []
        small = page.evaluate("parseFloat(getComputedStyle(document.querySelector('main')).fontSize)")
        assert small >= 16
