"""Figures whose Hangul, minus signs and log ticks are drawn on every machine (used by every chapter)."""

from __future__ import annotations

import warnings
from importlib import resources

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

FONT_FAMILY = "Pretendard"
MAX_WIDTH = 4.4  # inches


def use_book_style() -> None:
    """Draw all later figures with the font that ships with the library.

    A character that the fonts lack is an error instead of an empty box, so a
    figure with a box in it can never be published. A figure 4.4 inches wide that
    a phone shows 328 CSS px wide has text of 12 · 328 / (96 · 4.4) = 9.3 pt.
    """
    with resources.as_file(resources.files("tutorial_lib") / "assets/fonts/Pretendard-Regular.otf") as path:
        if FONT_FAMILY not in {font.name for font in font_manager.fontManager.ttflist}:
            font_manager.fontManager.addfont(path)
    matplotlib.rcParams.update(
        {
            "font.family": [FONT_FAMILY, "DejaVu Sans"],
            "font.size": 12,
            "axes.unicode_minus": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
            "savefig.pad_inches": 0.04,  # notebooks save "tight": no more margin than the layout leaves
            "figure.figsize": (MAX_WIDTH, 3.2),
            "figure.dpi": 120,
            "figure.constrained_layout.use": True,
            "image.cmap": "viridis",
        }
    )
    warnings.filterwarnings("error", message=r"Glyph .* missing from")


def attention_heatmap(weights, queries, keys, ax=None, mask=None):
    """Draw attention weights as a grid: one row per query, one column per key.

    A forbidden cell is hatched, so that it cannot be taken for a small weight.

    Args:
        weights: (T, S), a tensor or array; colours run from 0 to the largest weight.
        queries: T labels, top to bottom; strings, or anything that `str` turns into one.
        keys:    S labels, left to right.
        ax:      matplotlib axes; a new figure, at most 4.4 inches wide, if left out.
        mask:    bool, (T, S), (1, S), (T, 1) or (1, 1); True = may attend.

    Returns:
        the axes.

    Raises:
        ValueError: if the weights' shape and the numbers of labels, or the mask, do not fit.
    """
    weights, queries, keys = _as_array(weights), _as_labels(queries), _as_labels(keys)
    if weights.shape != (len(queries), len(keys)):
        raise ValueError(
            f"weights must be (queries, keys) = {(len(queries), len(keys))}, got {tuple(weights.shape)}"
        )
    if ax is None:
        around = 1.7  # inches for labels and colour bar
        cell = min(0.42, (MAX_WIDTH - around) / max(len(keys), 1))
        _, ax = plt.subplots(figsize=(around + cell * len(keys), 1.2 + cell * len(queries)))
    image = ax.imshow(weights, cmap="viridis", vmin=0.0)
    if mask is not None:
        mask = _as_array(mask)
        if (
            mask.dtype != bool
            or mask.ndim != 2
            or any(m not in (1, w) for m, w in zip(mask.shape, weights.shape, strict=True))
        ):
            raise ValueError(
                f"mask must be boolean (T, S) = {weights.shape}, or 1 in place of T or S, "
                f"got {mask.dtype} of {mask.shape}"
            )
        for row, column in np.argwhere(~np.broadcast_to(mask, weights.shape)):
            ax.add_patch(
                Rectangle(
                    (column - 0.5, row - 0.5),
                    1,
                    1,
                    facecolor="white",
                    edgecolor="0.45",
                    hatch="////",
                    linewidth=0,
                )
            )
    ax.set_xticks(range(len(keys)), keys, rotation=45 if max(map(len, keys), default=0) > 2 else 0)
    ax.set_yticks(range(len(queries)), queries)
    ax.tick_params(length=0)
    ax.set_xlabel("key")
    ax.set_ylabel("query")
    ax.figure.colorbar(image, ax=ax, label="attention weight", shrink=0.85)
    return ax


def _as_labels(values) -> list[str]:
    """Strings from strings, numbers, an array or a tensor."""
    return [str(value) for value in (values.tolist() if hasattr(values, "tolist") else values)]


def _as_array(values) -> np.ndarray:
    """A numpy array from an array, a list or a tensor on any device, with or without gradient."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values
    return np.asarray(values)
