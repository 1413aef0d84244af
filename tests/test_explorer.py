"""The attention explorer's Python side: what it accepts, refuses and writes."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import itertools
import json
import re
from html.parser import HTMLParser
from importlib import resources

import keras
import numpy as np
import pytest
import torch

from tutorial_lib.attention import scaled_dot_product_attention
from tutorial_lib.explorer import MAX_CELLS, explore, explore_steps
from tutorial_lib.explorer_still import ALPHABET, EDGES, MASKED, TINY, readable_tokens
from tutorial_lib.masks import causal_mask, combine_masks, padding_mask
from tutorial_lib.tokenizers import gpt2_pieces, gpt2_tokenizer

WORDS = ["The", "cat", "sat"]
KEYS = ["나는", "고양이가", "좋다", "."]
EVIL = ["</script><script>alert(1)</script>", "'\"><img src=x onerror=alert(1)>", "&amp;<!--"]


class Page(HTMLParser):
    """The tags and attributes of a page, and its text outside script and style."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.texts, self.data = [], [], None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if "data-tlx" in dict(attrs):
            self.data = json.loads(dict(attrs)["data-tlx"])

    def handle_data(self, data):
        self.texts.append(data)


def random_weights(*shape, seed=0):
    return torch.softmax(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


def data_of(explorer) -> dict:
    return Page(explorer._repr_html_()).data


def codes_of(explorer) -> np.ndarray:
    data = data_of(explorer)
    numbers = [ALPHABET.index(letter) for letter in data["codes"]]
    return np.array([64 * a + b for a, b in zip(numbers[::2], numbers[1::2], strict=True)]).reshape(
        data["shape"]
    )


SHAPES = {
    "(T, S)": (random_weights(3, 4), (1, 1, 3, 4)),
    "(H, T, S)": (random_weights(2, 3, 4), (1, 2, 3, 4)),
    "(layers, H, T, S)": (random_weights(5, 2, 3, 4), (5, 2, 3, 4)),
    "(B=1, H, T, S)": (random_weights(1, 2, 3, 4), (1, 2, 3, 4)),
    "(layers, B=1, H, T, S)": (random_weights(5, 1, 2, 3, 4), (5, 2, 3, 4)),
    "Hugging Face's tuple of (B=1, H, T, S)": (tuple(random_weights(1, 2, 3, 4) for _ in range(5)), (5, 2, 3, 4)),
    "list of (H, T, S)": ([random_weights(2, 3, 4) for _ in range(5)], (5, 2, 3, 4)),
    "list of (T, S)": ([random_weights(3, 4) for _ in range(5)], (5, 1, 3, 4)),
    "dict of calls": ({"layers.0": [random_weights(1, 2, 3, 4)], "layers.1": [random_weights(1, 2, 3, 4)]}, (2, 2, 3, 4)),
    "numpy": (random_weights(2, 3, 4).numpy(), (1, 2, 3, 4)),
    "keras": (keras.ops.softmax(keras.ops.ones((2, 3, 4))), (1, 2, 3, 4)),
    "nested lists": (random_weights(3, 4).tolist(), (1, 1, 3, 4)),
    "list of rows": (list(random_weights(3, 4)), (1, 1, 3, 4)),
    "bfloat16": (random_weights(3, 4).bfloat16(), (1, 1, 3, 4)),
    "with gradient": (random_weights(3, 4).requires_grad_(), (1, 1, 3, 4)),
    "not contiguous": (random_weights(4, 3).T.clone().T.T / 2, (1, 1, 3, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_weights_of_every_library_are_accepted(name):
    weights, shape = SHAPES[name]
    explorer = explore(WORDS, weights, key_tokens=KEYS)
    assert tuple(data_of(explorer)["shape"]) == shape


def test_the_page_gets_the_weights_in_thousandths():
    weights = random_weights(5, 2, 3, 4)
    codes = codes_of(explore(WORDS, weights, key_tokens=KEYS))
    assert np.abs(codes / 1000 - weights.double().numpy()).max() <= 0.0005


def test_tiny_zero_and_masked_are_three_different_things():
    weights = np.array([[1.0, 0.0, 0.0], [0.9999, 0.0001, 0.0], [0.5, 0.2, 0.3]])
    codes = codes_of(
        explore(WORDS, weights, mask=torch.tensor([[True, False, True], [True, True, False], [True] * 3]))
    )
    assert codes[0, 0].tolist() == [[1000, MASKED, 0], [1000, TINY, MASKED], [500, 200, 300]]


def test_a_weight_behind_the_mask_stays_visible():
    codes = codes_of(explore(WORDS, np.full((3, 3), 1 / 3), mask=causal_mask(3)))
    assert codes[0, 0, 0].tolist() == [333, MASKED + 333, MASKED + 333]


@pytest.mark.parametrize(
    "mask",
    [causal_mask(3), causal_mask(3).expand(2, 3, 3), causal_mask(3)[None, None], combine_masks(padding_mask(lengths=[3]), causal_mask(3))],
)  # fmt: skip
def test_masks_broadcast_as_in_the_library(mask):
    weights = scaled_dot_product_attention(*torch.randn(3, 2, 3, 8), mask=causal_mask(3))[1]
    codes = codes_of(explore(WORDS, weights, mask=mask))
    assert ((codes >= MASKED)[0] == ~causal_mask(3).numpy()).all()


def test_names_of_recorded_layers_are_kept():
    weights = {"encoder.0.attention": [random_weights(1, 2, 3, 3)]}
    assert data_of(explore(WORDS, weights))["layers"] == ["encoder.0.attention"]


REFUSED = {
    "3 queries, got 2 tokens": lambda: explore(["a", "b"], random_weights(3, 3)),
    "4 keys, got 3 tokens": lambda: explore(WORDS, random_weights(3, 4), key_tokens=WORDS),
    "3 queries and 4 keys: name the keys by key_tokens": lambda: explore(WORDS, random_weights(3, 4)),
    "list of tokens, got one str": lambda: explore("The", random_weights(3, 3)),
    "(layers, 1, H, T, S), none of them empty, got (2, 2, 2, 3, 3)": lambda: explore(WORDS, random_weights(2, 2, 2, 3, 3)),
    "none of them empty, got (0, 0)": lambda: explore([], np.zeros((0, 0))),
    "(1, H, T, S) for one sentence, got (2, 2, 3, 3)": lambda: explore(WORDS, (random_weights(2, 2, 3, 3),) * 2),
    "the same (H, T, S), got (2, 3, 3) and (2, 3, 4)": lambda: explore(WORDS, [random_weights(2, 3, 3), random_weights(2, 3, 4)]),
    "attn_implementation='eager'": lambda: explore(WORDS, (None, None)),
    "one call, got 2 calls": lambda: explore(WORDS, {"a": [random_weights(1, 2, 3, 3)] * 2}),
    "got 2 in layer 0, head 0, query 0, key 0: are these scores": lambda: explore(WORDS, np.full((3, 3), 2.0)),
    "got nan in layer 0, head 0, query 1": lambda: explore(WORDS, np.array([[1, 0, 0], [np.nan] * 3, [1, 0, 0]])),
    "rows of one length": lambda: explore(WORDS, [[1.0], [0.5, 0.5], [1.0]]),
    "mask must be boolean (True = may attend), got torch.float32": lambda: explore(WORDS, random_weights(3, 3), mask=torch.ones(3, 3)),
    "= (1, 1, 3, 3), got (4, 4)": lambda: explore(WORDS, random_weights(3, 3), mask=causal_mask(4)),
    "head must be a whole number below 2, got 2": lambda: explore(WORDS, random_weights(2, 3, 3), head=2),
    "language must be 'en', 'ko' or None (that of the page), got 'fr'": lambda: explore(WORDS, random_weights(3, 3), language="fr"),
    "same width, got 4 and 5": lambda: explore_steps(torch.ones(3, 4), torch.ones(3, 5), torch.ones(3, 4), tokens=WORDS),
    "same length, got 3 and 2": lambda: explore_steps(torch.ones(3, 4), torch.ones(3, 4), torch.ones(2, 4), tokens=WORDS),
    "for one sentence and head, got (2, 3, 4)": lambda: explore_steps(*[torch.ones(2, 3, 4)] * 3, tokens=WORDS),
    "query must be finite, got inf": lambda: explore_steps(*[torch.full((3, 4), torch.inf)] * 3, tokens=WORDS),
    "mask must be one of none, causal here, got 'padding'": lambda: explore_steps(*[torch.ones(3, 4)] * 3, tokens=WORDS, mask="padding"),
    "d_k must be a whole number between 1 and the width 4, got 5": lambda: explore_steps(*[torch.ones(3, 4)] * 3, tokens=WORDS, d_k=5),
    "of shape (3,) or (1, 1, 1, 3), got torch.bool of (4,)": lambda: explore_steps(*[torch.ones(3, 4)] * 3, tokens=WORDS, padding=torch.ones(4, dtype=torch.bool)),
    "60000 numbers, at most 50000": lambda: explore_steps(*[torch.ones(200, 100)] * 3, tokens=range(200)),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_does_not_fit_is_refused_with_both_sides(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSED[message]()


def test_too_many_cells_are_refused_before_anything_is_written():
    with pytest.raises(
        ValueError, match=f"12 layers x 12 heads x 128 x 128 have 2359296 cells, at most {MAX_CELLS}"
    ):
        explore(range(128), np.broadcast_to(np.float32(1 / 128), (12, 12, 128, 128)))


def test_the_object_stays_small():
    assets = resources.files("tutorial_lib") / "assets"
    code = sum(len((assets / name).read_bytes()) for name in ("explorer.css", "explorer.js"))
    assert code <= 60_000
    tokens = [f"word{i}" for i in range(64)]
    one = len(explore(tokens, random_weights(64, 64), mask=None).html.encode())
    many = len(explore(tokens, random_weights(12, 12, 64, 64)).html.encode())
    assert one < code + 150_000
    assert many < code + 150_000 + 2 * 144 * 64 * 64


@pytest.mark.parametrize("make", [explore, explore_steps])
def test_tokens_and_title_cannot_become_html(make):
    arguments = (EVIL, random_weights(3, 3)) if make is explore else [torch.eye(3)] * 3
    more = {} if make is explore else {"tokens": EVIL}
    html = make(*arguments, title=EVIL[0], **more).html
    page, plain = (
        Page(html),
        Page(make(*(["a"] * 3 if a is EVIL else a for a in arguments), **{k: ["a"] * 3 for k in more}).html),
    )
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert html.count("</script>") == html.count("<script>") == 1
    assert ["".join(token) for token in page.data["queries"]] == EVIL
    assert page.data["title"] == EVIL[0]
    assert EVIL[2] in page.texts  # the still picture's table says it as text


def test_the_object_asks_for_nothing_and_has_no_ids_that_could_collide():
    for explorer in (explore(WORDS, random_weights(3, 3)), explore_steps(*[torch.eye(3)] * 3, tokens=WORDS)):
        page = Page(explorer.html)
        assert not any({"src", "href", "id", "name"} & set(attributes) for _, attributes in page.tags)
        addresses = set(re.findall(r"https?://[^\"'\s)]+", explorer.html))
        assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, not an address
        assert not re.search(
            r"\b(import|fetch|XMLHttpRequest|eval|innerHTML|localStorage)\b|url\(", explorer.html
        )


def test_the_same_input_gives_the_same_bytes():
    first, again = (explore(WORDS, random_weights(2, 3, 3)) for _ in range(2))
    assert first.html == again.html
    assert repr(first) == "<attention explorer: 1 layers, 2 heads, 3 queries, 3 keys>"
    assert str(first) == repr(first)


def test_language_is_said_only_when_it_is_chosen():
    root = Page(explore(WORDS, random_weights(3, 3)).html).tags[0][1]
    assert "lang" not in root
    assert Page(explore(WORDS, random_weights(3, 3), language="ko").html).tags[0][1]["lang"] == "ko"


@pytest.mark.parametrize(
    "token, shown",
    [
        ("▁나는", ("▁", "나는")), ("##ing", ("##", "ing")), ("Ġcat", ("Ġ", "cat")), ("cat", ("", "cat")),
        (" cat", ("␣", "cat")), ("New York", ("", "New York")), ("", ("", "∅")), (" ", ("", "␣")), ("\n", ("", "↵")),
        ("a\u202eb", ("", "a<202E>b")), ("\ud800", ("", "<D800>")), ("##", ("", "##")), (7, ("", "7")),
        ("가\u200b", ("", "가<200B>")), ("👩\u200d🔬", ("", "👩\u200d🔬")),
    ],
)  # fmt: skip
def test_tokens_are_readable(token, shown):
    assert readable_tokens([token]) == [shown]


@pytest.mark.parametrize("tokens", [["są", "ķīmija"], ["ñandú", "Å"], ["안녕", "▁하세요"]])
def test_words_of_other_languages_are_not_taken_for_bytes(tokens):
    assert ["".join(token) for token in readable_tokens(tokens)] == tokens


def test_gpt2_letters_become_the_hangul_they_stand_for():
    tokenizer = gpt2_tokenizer()
    tokens = tokenizer.encode("cats 나는 안").tokens
    shown = readable_tokens(tokens)
    assert shown[:2] == [("", "c"), ("", "ats")] or shown[0] == ("", "cats")
    text = "".join(mark + text for mark, text in shown)
    parts = re.findall(r"<([0-9A-F ]+)>", text)
    assert parts and all(re.fullmatch("[0-9A-F]{2}( [0-9A-F]{2})*", part) for part in parts)
    back = re.sub(
        r"((?:<[0-9A-F ]+>)+)",
        lambda m: bytes.fromhex(re.sub("[<>]", "", m[1].replace("><", " "))).decode(),
        text,
    )
    assert back == "catsĠ나는Ġ안"
    assert [t for _, t in readable_tokens(gpt2_pieces(tokenizer, "나"))] == [
        t for _, t in readable_tokens(tokenizer.encode("나").tokens)
    ]


def test_the_still_picture_has_a_table_with_the_same_numbers():
    page = Page(
        explore(WORDS, np.array([[1.0, 0, 0], [0.25, 0.75, 0], [0.2, 0.3, 0.5]]), mask=causal_mask(3)).html
    )
    texts = [text.strip() for text in page.texts]
    assert [tag for tag, _ in page.tags].count("td") == 1 + 9
    assert {"1.000", ".250", ".750", ".200", ".300", ".500"} <= set(texts)
    assert texts.count("masked") == texts.count("마스크") == 3


def test_steps_start_with_what_the_library_computes():
    q, k, v = torch.randn(3, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    page = Page(explore_steps(q, k, v, tokens=KEYS, mask="causal").html)
    weights = scaled_dot_product_attention(q, k, v, causal_mask(4))[1]
    shown = [float(text) for text in map(str.strip, page.texts) if re.fullmatch(r"[01]?\.\d{3}", text)]
    assert np.allclose(shown, weights[causal_mask(4)], atol=0.00051)
    assert np.allclose(page.data["q"], q, rtol=1e-8, atol=0)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colour_steps_differ_in_brightness_and_their_letters_can_be_read():
    sheet = (resources.files("tutorial_lib") / "assets/explorer.css").read_text(encoding="utf-8")
    steps, letters = (
        [re.search(rf"--{kind}{i}: (#\w+)", sheet)[1] for i in range(len(EDGES) + 1)] for kind in "st"
    )
    light = [luminance(step) for step in steps]
    assert all((b + 0.05) / (a + 0.05) > 1.2 for a, b in itertools.pairwise(light))
    for step, letter in zip(steps, letters, strict=True):
        dark, bright = sorted((luminance(step), luminance(letter)))
        assert (bright + 0.05) / (dark + 0.05) >= 4.5, (step, letter)
