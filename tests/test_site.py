"""The built site as a reader meets it, in Chromium."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
from browser import LANGUAGES, ROOT, SITE, open_page, toc_pages, wait_for_mathematics

pytestmark = pytest.mark.browser

PAGES = [(language, page) for language in LANGUAGES for page in [*toc_pages(language), "search.html"]]
CHAPTERS = [(language, page) for language, page in PAGES if re.match(r"\d\d_(?!exercises)", page)]
STATIC = {
    "java_script_enabled": False
}  # for what the server's page says: no formulas are set, so it is quick


@pytest.mark.parametrize("language,name", PAGES)
def test_the_switch_leads_to_the_same_page_in_the_other_language(site, browser, language, name):
    other = {"en": "ko", "ko": "en"}[language]
    with open_page(browser) as (page, _):
        page.route("**/tex-mml-chtml.js*", lambda route: route.abort())  # two pages' formulas take seconds
        page.goto(f"{site}/{language}/{name}")
        page.click(".language-switch a")
        page.wait_for_url(f"{site}/{other}/{name}")
        assert page.evaluate("document.documentElement.lang") == other
        assert page.evaluate("localStorage.getItem('language')") == other
        alternates = page.evaluate(
            "[...document.querySelectorAll('link[hreflang]')].map(l => [l.hreflang, l.href])"
        )
        if name != "search.html":
            ends = {code: href.rsplit("/", 2)[-2:] for code, href in alternates if code != "x-default"}
            assert ends == {code: [code, name] for code in LANGUAGES}


def test_the_landing_page_remembers_the_choice(site, browser):
    with open_page(browser, f"{site}/index.html") as (page, log):
        assert page.url.endswith("index.html")
        page.click("a[data-language=ko]")
        page.wait_for_url("**/ko/index.html")
        page.goto(f"{site}/index.html")
        page.wait_for_url("**/ko/index.html")
        page.goto(f"{site}/index.html#choose")
        assert page.locator("a[data-language=en]").is_visible()
        assert log.complaints == []


def test_an_address_that_does_not_exist_leads_back_in_both_languages(site, browser):
    with open_page(browser, f"{site}/ko/no_such_page.html") as (page, _):
        assert page.locator("h1").inner_text() == "Page not found"
        assert page.locator("[lang=ko] h2").inner_text() == "페이지를 찾을 수 없습니다"
        page.click("[lang=ko] a")
        page.wait_for_load_state()
        assert page.url == f"{site}/ko/index.html"


@pytest.mark.parametrize("language,name", CHAPTERS)
def test_colab_and_download_lead_to_the_notebook(site, browser, language, name):
    from home import home

    path = f"chapters/{language}/{Path(name).stem}.ipynb"
    with open_page(browser, f"{site}/{language}/{name}", **STATIC) as (page, _):
        links = page.evaluate("[...document.querySelectorAll('.article-header-buttons a')].map(a => a.href)")
        address = home().removeprefix("https://github.com/")
        assert f"https://colab.research.google.com/github/{address}/blob/main/{path}" in links
        assert f"{home()}/edit/main/{path.removesuffix('.ipynb')}.md" in links
        response = page.request.get(f"{site}/{language}/{Path(name).stem}.ipynb")
        assert response.body() == (ROOT / path).read_bytes(), "the site has another notebook: run `make book`"
        assert response.url in links


@pytest.mark.parametrize("language,name", PAGES)
def test_without_javascript_the_text_reads(site, browser, language, name):
    with open_page(browser, f"{site}/{language}/{name}", **STATIC) as (page, _):
        article = page.locator("main")
        assert article.is_visible()
        if name == "search.html":
            words = {"en": "activate JavaScript", "ko": "자바스크립트"}[language]
            assert words in article.inner_text()
        else:
            assert len(page.locator("article").inner_text()) > 1500
        for details in page.locator("article details.sd-dropdown").all()[
            :3
        ]:  # collapsed answers open by themselves
            details.locator("summary").click()
            assert details.locator("p, pre").first.is_visible()


@pytest.mark.parametrize("language,name", CHAPTERS)
def test_every_figure_has_words_in_the_language_of_the_page(site, browser, language, name):
    with open_page(browser, f"{site}/{language}/{name}", **STATIC) as (page, _):
        figures = page.evaluate(
            """[...document.querySelectorAll('article figure:has(img)')].map(
                f => [f.querySelector('img').alt, f.querySelector('figcaption')?.innerText ?? ''])"""
        )
        images = page.evaluate("document.querySelectorAll('article img').length")
        assert len(figures) == images > 0
        for alt, caption in figures:
            assert len(alt) > 20 and len(caption) > 10
            for words in (alt, caption):
                hangul = bool(re.search("[가-힣]", words))
                assert hangul if language == "ko" else True
                if language == "en":
                    letters = [c for c in words if c.isalpha()]
                    assert sum("가" <= c <= "힣" for c in letters) < len(letters) / 3


def test_hangul_is_drawn_without_fonts_of_the_system(site, browser):
    """The site's own font loads in both weights and holds every Hangul letter of the book."""
    from fontTools.ttLib import TTFont

    with open_page(browser, f"{site}/ko/index.html") as (page, log):
        for weight in (400, 700):
            loaded = page.evaluate(
                f"document.fonts.load('{weight} 16px \"Book Hangul\"', '가').then(f => f.length)"
            )
            assert loaded >= 1
        assert log.complaints == []
        stack = page.evaluate("getComputedStyle(document.querySelector('article')).fontFamily")
        assert "Book Hangul" in stack
        code = page.evaluate(
            "getComputedStyle(document.documentElement).getPropertyValue('--pst-font-family-monospace')"
        )
        assert "Book Hangul" in code
        # What Chromium really drew with: a word shaped before the font arrived would show boxes of another font.
        page.goto(f"{site}/ko/01_tokens_and_embeddings.html")
        wait_for_mathematics(page)
        page.wait_for_timeout(500)
        inspector = page.context.new_cdp_session(page)
        inspector.send("DOM.enable")
        inspector.send("CSS.enable")
        for selector in (".logo__title", ".bd-sidenav a", "article h1", "article p", ".admonition-title"):
            root = inspector.send("DOM.getDocument")["root"]["nodeId"]  # asked anew: scripts change the page
            node = inspector.send("DOM.querySelector", {"nodeId": root, "selector": selector})["nodeId"]
            fonts = inspector.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
            names = " ".join(font["familyName"] for font in fonts)
            assert re.search("Pretendard|Apple SD|Malgun|Noto Sans|Nanum", names), (selector, names)
    text = "".join(path.read_text(encoding="utf-8") for path in SITE.glob("ko/*.html"))
    hangul = {c for c in text if "HANGUL" in unicodedata.name(c, "")}
    for font in (ROOT / "book/static/fonts").glob("*.woff2"):
        assert hangul <= set(map(chr, TTFont(font).getBestCmap())), font


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_interface_speaks_the_language_of_the_page(site, browser, language):
    """No English word in the Korean page's buttons and labels (names of formats and services apart)."""
    with open_page(browser, f"{site}/{language}/{toc_pages(language)[1]}") as (page, _):
        words = page.evaluate(
            """[...document.querySelectorAll('[title], [aria-label], [placeholder], [data-bs-title]')]
                .filter(e => !e.closest('article') && !e.closest('.language-switch'))
                .flatMap(e => ['title', 'aria-label', 'placeholder', 'data-bs-title', 'data-bs-original-title']
                    .map(name => e.getAttribute(name)).filter(Boolean))"""
        )
        assert len(words) > 10
        hangul = [word for word in words if re.search("[가-힣]", word)]
        assert (set(words) - set(hangul) <= {"Page", "Colab logo"}) if language == "ko" else hangul == []


@pytest.mark.parametrize("language,name", CHAPTERS)
def test_the_address_of_a_section_is_its_label(site, browser, language, name):
    with open_page(browser, f"{site}/{language}/{name}", **STATIC) as (page, _):
        ids = page.evaluate("[...document.querySelectorAll('article section')].map(s => s.id)")
        links = page.evaluate(
            "[...document.querySelectorAll('article section > :is(h1,h2) > a.headerlink')].map(a => a.hash)"
        )
    source = (ROOT / "chapters" / language / f"{Path(name).stem}.md").read_text(encoding="utf-8")
    labels = re.findall(r"^\(([\w-]+)\)=$", source, re.MULTILINE)
    assert [i for i in ids if i in labels] == labels
    assert links == [f"#{label}" for label in labels]
