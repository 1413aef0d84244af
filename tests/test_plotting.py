import io

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.text import Text

from tutorial_lib.plotting import attention_heatmap, use_book_style

PHONE = 328 / 96  # inches: the CSS pixels that a figure gets on a phone 360 px wide

TOKENS = ["배", "타고", "아프다"]


@pytest.fixture(autouse=True)
def book_style():
    use_book_style()
    yield
    plt.close("all")


def draw(ax):
    ax.figure.canvas.draw()
    return ax


def test_hangul_minus_sign_and_log_ticks_are_drawn():
    _, ax = plt.subplots()
    ax.plot([1e-3, 1e3], [-1, 1])
    ax.set_xscale("log")
    ax.set_title("주의: 배가 아프다 − √ · ∂")
    draw(ax)
    assert any("-1" in label.get_text() for label in ax.get_yticklabels())
    assert "Pretendard" in plt.gcf().axes[0].title.get_fontname()


def test_a_missing_glyph_is_an_error():
    _, ax = plt.subplots()
    ax.set_title("\U00013000")  # an Egyptian hieroglyph
    with pytest.raises(UserWarning, match="missing from"):
        draw(ax)


def test_heatmap_shows_the_weights_and_the_tokens_of_each_axis():
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]], dtype=torch.bfloat16, requires_grad=True)
    ax = draw(attention_heatmap(weights, TOKENS[:2], TOKENS))
    np.testing.assert_allclose(ax.images[0].get_array(), weights.detach().double())
    assert [label.get_text() for label in ax.get_xticklabels()] == TOKENS
    assert [label.get_text() for label in ax.get_yticklabels()] == TOKENS[:2]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("key", "query")
    assert ax.images[0].get_clim() == (0.0, pytest.approx(0.8, abs=0.01))


def test_forbidden_cells_are_hatched_and_others_are_not():
    mask = torch.tensor([[True, False, False], [True, True, False]])
    ax = draw(attention_heatmap(np.full((2, 3), 0.01), TOKENS[:2], TOKENS, mask=mask))
    hatched = {(round(p.get_y() + 0.5), round(p.get_x() + 0.5)) for p in ax.patches if p.get_hatch()}
    assert hatched == {(0, 1), (0, 2), (1, 2)}
    for part, cells in ((mask[:1], 4), (mask[:, 1:2], 3), (mask[:1, :1], 0)):  # (1, S), (T, 1), (1, 1)
        assert len(attention_heatmap(np.full((2, 3), 0.01), TOKENS[:2], TOKENS, mask=part).patches) == cells


def test_heatmap_uses_the_axes_it_is_given():
    _, axes = plt.subplots(1, 2)
    assert attention_heatmap(np.eye(3), TOKENS, TOKENS, ax=axes[1]) is axes[1]
    assert not axes[0].images


@pytest.mark.parametrize("labels", [[10, 20, 30], range(10, 40, 10), np.array([10, 20, 30])])
def test_labels_may_be_numbers(labels):
    for numbers in (labels, torch.tensor(labels)):
        ax = draw(attention_heatmap(np.eye(3), numbers, numbers))
        for axis in (ax.xaxis, ax.yaxis):
            assert [label.get_text() for label in axis.get_ticklabels()] == ["10", "20", "30"]


def saved_width(figure):
    """Inches, saved as notebooks do."""
    saved = io.BytesIO()
    figure.savefig(saved, bbox_inches="tight")
    saved.seek(0)
    return plt.imread(saved).shape[1] / figure.dpi


def smallest_text_on_a_phone(figure):
    sizes = [text.get_fontsize() for text in figure.findobj(Text) if text.get_text()]
    return min(sizes) * min(1, PHONE / saved_width(figure))


def test_text_of_a_plain_figure_is_nine_points_on_a_phone():
    figure, ax = plt.subplots()
    ax.plot([1, 2], label="a line")
    ax.set(title="title", xlabel="x", ylabel="y")
    ax.legend()
    ax.text(1, 1, "note")
    assert figure.get_size_inches().tolist() == [4.4, 3.2]
    assert saved_width(figure) <= 4.4 + 2 / figure.dpi
    assert smallest_text_on_a_phone(draw(ax).figure) >= 9


@pytest.mark.parametrize("length", [1, 3, 8, 40])
def test_heatmap_is_narrow_enough_for_nine_points_on_a_phone(length):
    labels = [TOKENS[index % 3] for index in range(length)]
    figure = draw(attention_heatmap(np.eye(length), labels, labels)).figure
    assert figure.get_figwidth() <= 4.4 + 1e-9
    assert saved_width(figure) <= 4.4 + 2 / figure.dpi
    assert smallest_text_on_a_phone(figure) >= 9


@pytest.mark.parametrize(
    ("weights", "mask", "words"),
    [
        (np.eye(2), None, r"= \(3, 3\), got \(2, 2\)"),
        (np.eye(3)[None], None, r"got \(1, 3, 3\)"),
        (np.eye(3), np.eye(3), "got float64"),
        (np.eye(3), np.ones((2, 3), dtype=bool), r"\(T, S\) = \(3, 3\), or 1 .*, got bool of \(2, 3\)"),
        (np.eye(3), np.ones(3, dtype=bool), r"got bool of \(3,\)"),
    ],
)
def test_heatmap_refuses_what_does_not_fit(weights, mask, words):
    with pytest.raises(ValueError, match=words):
        attention_heatmap(weights, TOKENS, TOKENS, mask=mask)
