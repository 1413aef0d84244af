"""Attention to look at and to touch: one self-contained HTML object, in the page and in notebooks (chapter 05).

`explore` shows the weights of any attention, `explore_steps` how one attention comes about. The files
`assets/explorer.js` and `assets/explorer.css` travel inside each object, so it needs no server and no network.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources

import numpy as np

from tutorial_lib.explorer_input import (
    as_index,
    as_layers,
    as_mask,
    as_matrix,
    as_names,
    as_padding,
    check_weights,
    mask_kinds,
)
from tutorial_lib.explorer_still import EDGES, encode, pack, still

MAX_CELLS = 1_000_000  # of all layers and heads: 2 MB of the page
MAX_NUMBERS = 50_000  # in query, key and value of `explore_steps`
LANGUAGES = (None, "en", "ko")


class Explorer:
    """What `explore` and `explore_steps` return: a notebook shows it, `str(explorer.html)` is a piece of a page."""

    def __init__(self, html: str, description: str):
        self.html = html
        self.description = description

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"<{self.description}>"


def explore(
    tokens: Sequence,
    weights,
    *,
    key_tokens: Sequence | None = None,
    mask=None,
    layer: int = 0,
    head: int = 0,
    query: int | None = None,
    title: str = "",
    language: str | None = None,
) -> Explorer:
    """Show attention weights: all layers and heads small, one head large, any token with what it looks at.

    Args:
        tokens:  T names of the queries.
        weights: (T, S), (H, T, S) or (layers, H, T, S), a torch, Keras or numpy
            array; (layers, 1, H, T, S); a list or tuple of layers, each (T, S),
            (H, T, S) or (1, H, T, S), as Hugging Face returns them; or the dict
            of `record_attention` with one call per layer. One sentence, not a
            batch: numbers in front of H count layers.
        key_tokens: S names of the keys; the queries' if left out (self-attention).
        mask:    bool, True = may attend, broadcastable to the weights: (T, S),
            (H, T, S) or (1, 1 or H, 1 or T, S). Forbidden cells are hatched.
        layer, head, query: what is shown first, counted from 0; the middle query
            if left out.
        title:   a line above it, for a page with several.
        language: "en" or "ko"; that of the page if left out.

    Returns:
        an object that a notebook displays.

    Raises:
        ValueError: if weights, tokens or mask do not fit each other, a weight is
            not between 0 and 1, or there are too many; the message names both sides.
    """
    array, names = as_layers(weights)
    L, H, T, S = array.shape
    queries, keys = as_names(tokens, key_tokens, T, S)
    if array.size > MAX_CELLS:
        raise ValueError(
            f"weights of {L} layers x {H} heads x {T} x {S} have {array.size} cells, "
            f"at most {MAX_CELLS} can be shown: choose layers, heads or tokens"
        )
    check_weights(array)
    allowed = None if mask is None else as_mask(mask, array.shape)
    chosen = {
        "layer": as_index("layer", layer, L),
        "head": as_index("head", head, H),
        "query": T // 2 if query is None else as_index("query", query, T),
    }
    codes = encode(array, allowed)
    data = {
        "view": "map",
        "shape": [L, H, T, S],
        "codes": pack(codes),
        "queries": queries,
        "keys": None if key_tokens is None else keys,
        "layers": names,
        **chosen,
    }
    picture = still(codes, (chosen["layer"], chosen["head"]), queries, keys)
    description = f"attention explorer: {L} layers, {H} heads, {T} queries, {S} keys"
    return Explorer(_page(data, picture, title, language), description)


def explore_steps(
    query,
    key,
    value,
    *,
    tokens: Sequence,
    key_tokens: Sequence | None = None,
    padding=None,
    mask: str = "none",
    d_k: int | None = None,
    scale: bool = True,
    row: int | None = None,
    title: str = "",
    language: str | None = None,
) -> Explorer:
    """Show scaled dot-product attention step by step: scores, scale, mask, softmax, mix.

    The page computes it anew whenever the reader changes d_k (the first so many
    components of query and key are used), the scaling or the mask, and gets what
    `attention.scaled_dot_product_attention` gets.

    Args:
        query: (T, Dh), or with leading dimensions of 1.
        key:   (S, Dh).
        value: (S, Dv).
        tokens, key_tokens: as in `explore`.
        padding: bool, (S,) or (1, 1, 1, S), True = a real token; without it there
            is no padding mask to choose.
        mask:  what is chosen first: "none", "padding", "causal" or "both". The
            causal mask can be chosen if there are at least as many keys as queries.
        d_k:   how many components are used first; all if left out.
        scale: whether scores are divided by the root of d_k first.
        row:   the query shown first, counted from 0; the middle one if left out.
        title, language: as in `explore`.

    Raises:
        ValueError: if shapes, tokens or mask do not fit; the message names both sides.
    """
    q, k, v = (as_matrix(n, x) for n, x in (("query", query), ("key", key), ("value", value)))
    if q.shape[1] != k.shape[1]:
        raise ValueError(f"query and key must have the same width, got {q.shape[1]} and {k.shape[1]}")
    if len(k) != len(v):
        raise ValueError(f"key and value must have the same length, got {len(k)} and {len(v)}")
    if q.size + k.size + v.size > MAX_NUMBERS:
        raise ValueError(
            f"query, key and value have {q.size + k.size + v.size} numbers, at most {MAX_NUMBERS} can be shown"
        )
    T, S, width = len(q), len(k), q.shape[1]
    queries, keys = as_names(tokens, key_tokens, T, S)
    kinds = mask_kinds(padding, T, S)
    if mask not in kinds:
        raise ValueError(f"mask must be one of {', '.join(kinds)} here, got {mask!r}")
    if d_k is not None and (not isinstance(d_k, int) or not 1 <= d_k <= width):
        raise ValueError(f"d_k must be a whole number between 1 and the width {width}, got {d_k!r}")
    real = np.ones(S, bool) if padding is None else as_padding(padding, S)
    used = d_k or width
    allowed = np.ones((T, S), bool)
    if mask in ("padding", "both"):
        allowed &= real
    if mask in ("causal", "both"):
        allowed &= np.tri(T, S, S - T, dtype=bool)
    codes = encode(_attention_weights(q[:, :used], k[:, :used], allowed, scale), allowed)[None, None]
    data = {
        "view": "steps",
        "q": _numbers(q),
        "k": _numbers(k),
        "v": _numbers(v),
        "queries": queries,
        "keys": None if key_tokens is None else keys,
        "real": real.tolist(),
        "kinds": kinds,
        "mask": mask,
        "dk": used,
        "scale": bool(scale),
        "query": T // 2 if row is None else as_index("row", row, T),
    }
    description = f"scaled dot-product attention, step by step: {T} queries, {S} keys, d_k up to {width}"
    return Explorer(_page(data, still(codes, (0, 0), queries, keys), title, language), description)


def _page(data: dict, picture: str, title: str, language: str | None) -> str:
    if language not in LANGUAGES:
        raise ValueError(f"language must be 'en', 'ko' or None (that of the page), got {language!r}")
    data = {**data, "edges": EDGES, "title": str(title)}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("'", "&#39;")):
        text = text.replace(letter, name)  # nothing in it can end the attribute or begin an element
    spoken = f' lang="{language}"' if language else ""
    assets = resources.files("tutorial_lib") / "assets"
    style, script = ((assets / name).read_text(encoding="utf-8") for name in ("explorer.css", "explorer.js"))
    return (
        f"<div class=\"tlx tex2jax_ignore mathjax_ignore\"{spoken} data-tlx='{text}'>\n"
        f"<style>\n{style}</style>\n{picture}\n<script>\n{script}</script>\n</div>"
    )


def _numbers(matrix: np.ndarray) -> list[list[float]]:
    """Nine digits, which hold every 32-bit number exactly: 0.2 stays 0.2."""
    return [[float(f"{x:.9g}") for x in row] for row in matrix.tolist()]


def _attention_weights(q: np.ndarray, k: np.ndarray, allowed: np.ndarray, scale: bool) -> np.ndarray:
    import torch

    from tutorial_lib.attention import masked_softmax

    scores = torch.from_numpy(q @ k.T / (q.shape[1] ** 0.5 if scale else 1.0))
    return masked_softmax(scores, torch.from_numpy(allowed)).numpy()
