"""Figures whose Hangul, minus signs and log ticks are drawn on every machine (used by every chapter)."""

from __future__ import annotations

import warnings
from importlib import resources

import matplotlib
from matplotlib import font_manager

FONT_FAMILY = "Pretendard"


def use_book_style() -> None:
    """Draw all later figures with the font that ships with the library.

    A character that the fonts lack is an error instead of an empty box, so a
    figure with a box in it can never be published.
    """
    with resources.as_file(resources.files("tutorial_lib") / "assets/fonts/Pretendard-Regular.otf") as path:
        if FONT_FAMILY not in {font.name for font in font_manager.fontManager.ttflist}:
            font_manager.fontManager.addfont(path)
    matplotlib.rcParams.update(
        {
            "font.family": [FONT_FAMILY, "DejaVu Sans"],
            "font.size": 11,
            "axes.unicode_minus": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
            "figure.figsize": (6.0, 3.6),
            "figure.dpi": 120,
            "figure.constrained_layout.use": True,
            "image.cmap": "viridis",
        }
    )
    warnings.filterwarnings("error", message=r"Glyph .* missing from")
