"""The attention explorer as a reader meets it, in Chromium: keyboard, touch, two languages, print, a sandbox."""

from __future__ import annotations

import re
from html import escape

import pytest
import torch
from browser import open_page

from tutorial_lib.attention import scaled_dot_product_attention
from tutorial_lib.explorer import explore, explore_steps
from tutorial_lib.masks import causal_mask, combine_masks, padding_mask

pytestmark = pytest.mark.browser

WORDS = ["나는", "▁고양이", "가", "##좋", "<pad>"]
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
LIVE = ".tlx-live"


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


MASK = combine_masks(padding_mask(lengths=[4], size=5), causal_mask(5))
SELF = scaled_dot_product_attention(2 * draw(2, 3, 5, 8), draw(2, 3, 5, 8, seed=1), draw(2, 3, 5, 8), MASK)[1]
CROSS = scaled_dot_product_attention(2 * draw(3, 8), draw(4, 8, seed=1), draw(4, 8))[1]
Q, K, V = draw(5, 8), draw(5, 8, seed=1), draw(5, 3, seed=2)


def self_attention(**options):
    return explore(WORDS, SELF, mask=MASK, layer=1, head=2, query=3, **options)


def cross_attention(**options):
    return explore(["I", "like", "cats"], CROSS, key_tokens=["나는", "고양이를", "좋아", "해"], **options)


def steps(**options):
    return explore_steps(Q, K, V, tokens=WORDS, padding=padding_mask(lengths=[4], size=5), row=3, **options)


VIEWS = {"self": self_attention, "cross": cross_attention, "steps": steps}


def document(*explorers, lang="en", theme=None):
    chosen = f' data-theme="{theme}"' if theme else ""
    body = "\n<p>between</p>\n".join(explorer._repr_html_() for explorer in explorers)
    return (
        f'<!doctype html><html lang="{lang}"{chosen}><head><meta charset="utf-8"><title>A page</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"></head>'
        f"<body><main><h1>A page</h1>{body}</main></body></html>"
    )


@pytest.fixture
def show(browser):
    """Open a page with explorers; when the test ends, nothing was asked for and nothing complained of."""
    opened = []

    def show(*explorers, lang="en", theme=None, **options):
        context = open_page(browser, **options)
        page, log = context.__enter__()
        opened.append((context, log))
        page.set_content(document(*explorers, lang=lang, theme=theme))
        return page

    yield show
    logs = [log for _, log in opened]
    for context, _ in opened:
        context.__exit__(None, None, None)
    assert [log.complaints for log in logs] == [[]] * len(logs)
    assert [log.requests for log in logs] == [[]] * len(logs)


def chosen(page, strip=0):
    return page.locator(f"{LIVE} [role=listbox]").nth(strip).locator("[aria-selected=true]").inner_text()


def looks(page, strip=0):
    """The colour step of each token: "0" to "6", "m" masked, "b" below the threshold."""
    return (
        page.locator(f"{LIVE} [role=listbox]")
        .nth(strip)
        .locator("[role=option]")
        .evaluate_all("chips => chips.map(chip => chip.dataset.step ?? '')")
    )


def listed(page, which):
    """What a list says: [(token, number), ...]."""
    rows = page.locator(f"{LIVE} .tlx-read ol").nth(which).locator("li:not([aria-hidden])").all()
    return [(row.locator("span").first.inner_text(), row.locator("b").inner_text()) for row in rows]


def step_of(weight):
    return str(sum(round(float(weight), 3) >= edge for edge in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)))


def test_where_a_token_looks_and_who_looks_at_it(show):
    page = show(self_attention())
    weights = SELF[1, 2]
    assert chosen(page) == "##좋"
    assert looks(page) == [step_of(w) for w in weights[3, :4]] + ["m"]
    best = weights[3].argsort(descending=True)[:4].tolist()
    assert listed(page, 0) == [(WORDS[j], f"{weights[3, j]:.3f}") for j in best]
    by = [i for i in weights[:, 3].argsort(descending=True).tolist() if weights[i, 3] > 0]
    assert listed(page, 1) == [(WORDS[i], f"{weights[i, 3]:.3f}") for i in by]
    page.get_by_label("who looks at it").check()
    assert looks(page) == ["m", "m", "m", step_of(weights[3, 3]), step_of(weights[4, 3])]


def test_arrow_keys_walk_through_the_tokens_and_say_what_they_show(show):
    page = show(self_attention())
    for _ in range(12):  # heads, direction, then the tokens: each group is one stop
        page.keyboard.press("Tab")
        if page.evaluate("document.querySelector('.tlx-live').shadowRoot.activeElement?.role") == "option":
            break
    page.keyboard.press("ArrowLeft")
    assert chosen(page) == "가"
    focus = "getComputedStyle(document.querySelector('.tlx-live').shadowRoot.activeElement)"
    assert page.evaluate(f"{focus}.boxShadow") != "none"
    said = page.locator(f"{LIVE} [aria-live=polite]").inner_text()
    assert "query “가” looks at" in said and f"{SELF[1, 2, 2].max():.3f}" in said
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    assert chosen(page) == "<pad>"
    page.keyboard.press("Home")
    assert chosen(page) == "나는"
    assert page.locator(f"{LIVE} [role=option]").nth(3).get_attribute("aria-label") == "좋, continues a word"


def test_arrow_keys_walk_through_cells_and_heads(show):
    page = show(self_attention())
    page.locator(f"{LIVE} [role=application]").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    focus = "getComputedStyle(document.querySelector('.tlx-live').shadowRoot.activeElement)"
    assert page.evaluate(f"[{focus}.outlineStyle, {focus}.outlineWidth]") == ["solid", "3px"]
    line = page.locator(f"{LIVE} .tlx-line")
    assert line.inner_text() == f"가 → 가: {SELF[1, 2, 2, 2]:.3f}"
    page.keyboard.press("ArrowRight")
    assert line.inner_text() == "가 → ##좋: masked"
    heads = page.locator(f"{LIVE} [role=radio]")
    assert heads.count() == 6
    page.locator(f"{LIVE} [role=radio][aria-checked=true]").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert (
        page.locator(f"{LIVE} [role=radio][aria-checked=true]").get_attribute("aria-label")
        == "Layer 0, head 1"
    )
    assert listed(page, 0)[0][1] == f"{SELF[0, 1, 2].max():.3f}"


def test_hover_previews_and_leaves_the_choice(show):
    page = show(cross_attention(query=0))
    page.locator(f"{LIVE} [role=listbox]").first.locator("[role=option]").nth(2).hover()
    assert chosen(page) == "cats"
    assert looks(page, 1) == [step_of(w) for w in CROSS[2]]
    page.mouse.move(1, 1)
    assert chosen(page) == "I"
    box = page.locator(f"{LIVE} [role=application] svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.99, box["y"] + box["height"] * 0.4)
    assert page.locator(f"{LIVE} .tlx-line").inner_text() == f"like → 해: {CROSS[1, 3]:.3f}"
    page.mouse.move(1, 1)
    assert chosen(page) == "I"


def test_fingers_choose_tokens_cells_and_heads(show):
    page = show(cross_attention(query=0), self_attention(), **PHONE)
    page.locator(f"{LIVE} [role=listbox]").nth(1).locator("[role=option]").nth(3).tap()
    assert chosen(page, 1) == "해"
    assert looks(page, 0) == [step_of(w) for w in CROSS[:, 3]]
    field = page.locator(f"{LIVE} [role=application]").first
    box = field.bounding_box()
    field.tap(position={"x": box["width"] * 0.1, "y": box["height"] * 0.9})
    assert page.locator(f"{LIVE} .tlx-line").first.inner_text() == f"cats → 나는: {CROSS[2, 0]:.3f}"
    page.locator(f"{LIVE} [role=radio]").nth(0).tap()
    assert page.locator(f"{LIVE} .tlx-head").first.inner_text() == "Layer 0, head 0"


def test_the_threshold_hides_small_weights_but_not_what_is_masked(show):
    page = show(self_attention())
    slider = page.get_by_label("Hide weights below")
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "0.2"
    assert looks(page) == ["b" if w < 0.1995 else step_of(w) for w in SELF[1, 2, 3, :4]] + ["m"]
    drawn = page.locator(f"{LIVE} [role=application] path").evaluate_all(
        "paths => paths.map(p => p.classList[0])"
    )
    assert {"tlx-b", "tlx-m", "tlx-h"} <= set(drawn) and not {
        "tlx-0",
        "tlx-1",
        "tlx-2",
        "tlx-3",
        "tlx-4",
    } & set(drawn)


def test_two_objects_on_one_page_do_not_disturb_each_other(show):
    page = show(self_attention(), steps(), self_attention(), steps())
    assert page.locator(".tlx-on").count() == page.locator(LIVE).count() == 4
    texts = page.locator(f"{LIVE} .tlx-panel").evaluate_all("panels => panels.map(p => p.innerText)")
    assert texts[0] == texts[2] and texts[1] == texts[3]
    page.locator(LIVE).nth(0).get_by_label("who looks at it").check()
    page.locator(LIVE).nth(1).get_by_label("causal").check()
    page.locator(LIVE).nth(0).locator("[role=option]").nth(0).click()
    page.mouse.move(1, 1)
    after = page.locator(f"{LIVE} .tlx-panel").evaluate_all("panels => panels.map(p => p.innerText)")
    assert after[0] != texts[0] and after[1] != texts[1]
    assert after[2:] == texts[2:]
    assert page.locator(LIVE).nth(2).get_by_label("where it looks").is_checked()
    assert page.locator(LIVE).nth(3).get_by_label("none").is_checked()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_moves_when_something_is_chosen(show, view, width):
    page = show(VIEWS[view](), viewport={"width": width, "height": 900})
    places = "panel => [panel.offsetHeight, ...[...panel.querySelectorAll('svg, input, table, ol, [role=listbox]')].map(e => [e.getBoundingClientRect().top, e.getBoundingClientRect().left])].flat().map(Math.round)"
    panel = page.locator(f"{LIVE} .tlx-panel")
    before = panel.evaluate(places)
    strip = page.locator(f"{LIVE} [role=listbox]").last.locator("[role=option]")
    for i in (0, strip.count() - 1):
        strip.nth(i).click()
        assert panel.evaluate(places) == before, i
    for slider in page.locator(f"{LIVE} input[type=range]").all():
        slider.focus()
        page.keyboard.press("Home")
        page.keyboard.press("PageUp")
        assert panel.evaluate(places) == before
    for box in page.locator(f"{LIVE} input:is([type=radio], [type=checkbox])").all():
        box.click()
        assert panel.evaluate(places) == before, box.get_attribute("value")


@pytest.mark.parametrize("lang,expected", [("en", "en"), ("ko", "ko"), ("ko-KR", "ko"), ("fr", "en")])
def test_the_page_decides_the_language(show, lang, expected):
    page = show(*(view() for view in VIEWS.values()), lang=lang)
    for panel in page.locator(f"{LIVE} .tlx-panel").all():
        assert panel.get_attribute("lang") == expected
        words = panel.evaluate(
            """panel => [panel, ...panel.querySelectorAll('[aria-label]:not([role=option])')].map(e => e.ariaLabel)
                .concat([...panel.querySelectorAll('legend, label, p, summary, caption')].map(e => e.innerText))"""
        )
        for word in filter(None, words):
            plain = re.sub(r"[‘“].*?[’”]|q·k|\bdk\b", "", word)  # without tokens and formulas
            letters = [letter for letter in plain if letter.isalpha()]
            hangul = [letter for letter in letters if "가" <= letter <= "힣"]
            assert hangul == (letters if expected == "ko" else []), word


def test_a_chosen_language_wins_over_that_of_the_page(show):
    page = show(self_attention(language="en"), self_attention(language="ko"), lang="ko")
    labels = page.locator(f"{LIVE} .tlx-panel").evaluate_all("panels => panels.map(p => p.ariaLabel)")
    assert labels == ["Attention explorer", "어텐션 탐색기"]


@pytest.mark.parametrize("lang", ["en", "ko"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_finding_of_axe(show, theme, lang):
    from axe_playwright_python.sync_playwright import Axe

    other = {"light": "dark", "dark": "light"}[theme]
    for options in ({"color_scheme": theme}, {"color_scheme": other, "theme": theme}):
        page = show(*(view() for view in VIEWS.values()), lang=lang, **options)
        page.add_style_tag(
            content="body { background: Canvas; color: CanvasText } :root { color-scheme: light dark }"
        )
        for details in page.locator(f"{LIVE} summary").all():
            details.click()
        page.get_by_role("slider").first.press("ArrowRight")
        findings = Axe().run(page).response["violations"]
        assert [(f["id"], [node["html"][:200] for node in f["nodes"][:3]]) for f in findings] == []
        ground = page.locator(f"{LIVE} .tlx-panel").first.evaluate(
            "panel => getComputedStyle(panel).backgroundColor"
        )
        assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 25, 28)"}[theme]


def test_in_a_sandboxed_frame_as_in_colab(show, browser):
    """Colab shows an output in a frame of another origin that may run scripts and nothing else."""
    with open_page(browser) as (page, log):
        inner = escape(document(self_attention(), steps(), lang="ko"), quote=True)
        page.set_content(
            f'<iframe title="output" width="700" height="900" sandbox="allow-scripts" srcdoc="{inner}"></iframe>'
        )
        frame = page.frame_locator("iframe")
        frame.locator(f"{LIVE} [role=option]").first.click()
        assert frame.locator(f"{LIVE} .tlx-line").inner_text() == "나는 → 나는: 1.000"
        frame.locator(LIVE).nth(1).get_by_label("인과").check()
        assert frame.locator(LIVE).nth(1).locator("td.tlx-hatched").count() > 0
        assert log.complaints == []
        assert [url for url in log.requests if not url.startswith("about:")] == []


def test_put_in_by_a_script_as_in_jupyterlab(show):
    """JupyterLab sets the HTML and then makes each script run by putting in a copy of it."""
    page = show()
    page.evaluate(
        """html => {
            const output = document.createElement('div');
            document.querySelector('main').append(output);
            output.innerHTML = html;
            for (const old of output.querySelectorAll('script')) {
                const script = document.createElement('script');
                script.textContent = old.textContent;
                old.replaceWith(script);
            }
        }""",
        self_attention()._repr_html_(),
    )
    page.locator(f"{LIVE} [role=option]").first.click()
    assert page.locator(f"{LIVE} .tlx-line").inner_text() == "나는 → 나는: 1.000"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_print_shows_the_still_picture_in_light_colours(show, theme):
    page = show(self_attention(), steps(), color_scheme=theme, theme=theme)
    assert not page.locator(".tlx-still").first.is_visible()
    page.emulate_media(media="print")
    for still in page.locator(".tlx-still").all():
        assert still.is_visible()
        assert still.evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator(f"{LIVE} .tlx-panel").first.is_visible()


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_without_javascript_the_still_picture_and_its_table_are_there(show, lang):
    page = show(self_attention(), lang=lang, java_script_enabled=False)
    assert page.locator(".tlx-still svg.tlx-map").is_visible()
    assert page.locator(".tlx-small svg").count() == 6
    caption = page.locator("figcaption").inner_text()
    assert ("가중치" in caption) == (lang == "ko") and ("weight" in caption) == (lang == "en")
    page.locator("summary").click()
    cells = page.locator(".tlx-still td").all_inner_texts()[1:]
    masked = {"en": "masked", "ko": "마스크"}[lang]
    expected = [
        f"{w:.3f}".removeprefix("0") if m else masked
        for w, m in zip(SELF[1, 2].flatten(), MASK.flatten(), strict=True)
    ]
    assert cells == expected


def test_a_damaged_object_keeps_its_still_picture(browser):
    with open_page(browser) as (page, log):
        page.set_content(document(self_attention()).replace('"shape":[2,3,5,5]', '"shape":[2,3,5,"x"]'))
        assert page.locator(".tlx-still").is_visible()
        assert len(log.complaints) == 1


@pytest.mark.parametrize("view", VIEWS)
def test_on_a_phone_it_fits_and_fingers_can_hit_it(show, view):
    page = show(VIEWS[view](), lang="ko", **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    small = page.locator(
        f"{LIVE} :is(button, [role=option], summary, label, input, [role=application])"
    ).evaluate_all(
        """all => all.map(e => [e.outerHTML.slice(0, 80), (e.closest('label') ?? e).getBoundingClientRect()])
            .filter(([, box]) => box.width < 24 || box.height < 24)"""
    )
    assert small == []


def test_sixty_four_tokens_and_144_heads_are_usable_on_a_phone(show):
    tokens = [f"▁{'가나다라마바사아자차'[i % 10]}{i}" for i in range(64)]
    weights = scaled_dot_product_attention(*draw(3, 12, 12, 64, 16).unbind(), mask=causal_mask(64))[1]
    page = show(explore(tokens, tuple(layer[None] for layer in weights), mask=causal_mask(64)), **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    buttons = page.locator(f"{LIVE} [role=radio]")
    assert buttons.count() == 144
    buttons.nth(5 * 12 + 7).tap()
    page.locator(f"{LIVE} [role=option]").nth(60).tap()
    best = weights[5, 7, 60].argmax().item()
    assert listed(page, 0)[0] == (tokens[best], f"{weights[5, 7, 60, best]:.3f}")
    page.locator(f"{LIVE} summary").tap()
    assert page.locator(f"{LIVE} details td").count() == 1 + 64 * 64


def read_table(page, which):
    rows = page.locator(f"{LIVE} table").nth(which).locator("tbody tr").all()
    texts = [[cell.inner_text().split("\n")[0] for cell in row.locator("td").all()] for row in rows]
    return [[text.replace("−", "-") for text in row] for row in texts]


def set_slider(page, value):
    slider = page.locator(f"{LIVE} input[type=range]").first
    slider.focus()
    page.keyboard.press("Home")
    for _ in range(value - 1):
        page.keyboard.press("ArrowRight")


@pytest.mark.parametrize("kind", ["none", "padding", "causal", "both"])
def test_the_page_computes_what_the_library_computes(show, kind):
    page = show(steps())
    real = padding_mask(lengths=[4], size=5)[0, 0]
    mask = {
        "none": None,
        "padding": real.expand(5, 5),
        "causal": causal_mask(5),
        "both": real & causal_mask(5),
    }[kind]
    page.get_by_label(kind, exact=True).check()
    for d_k, scale in ((1, True), (5, False), (5, True), (8, True), (8, False)):
        set_slider(page, d_k)
        page.get_by_role("checkbox").set_checked(scale)
        query, key = Q[:, :d_k], K[:, :d_k]
        factor = 1 if scale else d_k**0.5  # the library always divides
        output, weights = scaled_dot_product_attention(query * factor, key, V, mask)
        for row in (0, 4):
            page.locator(f"{LIVE} [role=option]").nth(row).click()
            raw = query[row] @ key.T
            for j, (score, scaled, added, weight) in enumerate(read_table(page, 0)):
                free = mask is None or bool(mask[row, j])
                assert abs(float(score) - raw[j]) <= 0.00501
                assert abs(float(scaled) - raw[j] / (d_k**0.5 if scale else 1)) <= 0.00501
                assert added == ("0" if free else "-∞")
                assert abs(float(weight) - weights[row, j]) <= 0.000501
            mixed = torch.tensor([[float(x) for x in cells] for cells in read_table(page, 1)], dtype=V.dtype)
            assert torch.allclose(mixed, weights[row][:, None] * V, rtol=0, atol=0.000501)
            total = page.locator(f"{LIVE} table").nth(1).locator("tfoot td").all_inner_texts()
            total = torch.tensor([float(x.replace("−", "-")) for x in total], dtype=V.dtype)
            assert torch.allclose(total, output[row], rtol=0, atol=0.000501)


def test_a_query_that_may_look_at_nothing_gets_zeros(show):
    explorer = explore_steps(
        Q, K, V, tokens=WORDS, padding=torch.tensor([False] * 4 + [True]), mask="both", row=0
    )
    page = show(explorer)
    assert [row[3] for row in read_table(page, 0)] == ["0.000"] * 5
    assert page.locator(f"{LIVE} table").nth(1).locator("tfoot td").all_inner_texts() == ["0.000"] * 3
    assert page.get_by_text("may look at nothing").is_visible()
