import json
import sys

import pytest
import torch
from needed import require_weights
from support import make

from tutorial_lib.multihead import MultiHeadAttention


@pytest.fixture(scope="module")
def ladder(root):
    sys.path.insert(0, str(root / "benchmarks"))
    import ladder

    sys.path.pop(0)
    return ladder


@pytest.fixture(scope="module")
def rungs(ladder):
    """The rungs with weights drawn at random."""
    return list(ladder.climb(ladder.DRAWN))


@pytest.fixture(scope="module")
def trained_rungs(ladder):
    """The rungs with trained weights."""
    for name in ("all-MiniLM-L6-v2", "SmolLM2-135M-Instruct"):
        require_weights(name)
    return list(ladder.climb(ladder.TRAINED))


def test_every_rung_holds_in_value_and_gradient(rungs):
    assert [r for r in rungs if not r.holds] == []


def test_every_rung_with_trained_weights_holds(trained_rungs):
    assert [r for r in trained_rungs if not r.holds] == []
    assert [(r.reference.split()[-1], r.dtype) for r in trained_rungs] == [
        ("all-MiniLM-L6-v2", "float32"),
        ("SmolLM2-135M-Instruct", "float32"),
        ("all-MiniLM-L6-v2", "float64"),
    ]


def test_both_dtypes_climb_every_rung_that_they_can(rungs):
    names = {
        dtype: {(r.ours, r.reference) for r in rungs if r.dtype == dtype} for dtype in ("float32", "float64")
    }
    only_float32 = names["float32"] - names["float64"]
    assert names["float64"] < names["float32"]
    assert all("keras" in reference.lower() for _, reference in only_float32)
    references = {reference for _, reference in names["float32"]}
    assert {"loops", "einsum", "fused_attention", "nn.MultiheadAttention", "nn.Transformer"} < references
    assert {f"Hugging Face {name}" for name in ("BERT", "GPT-2", "Llama", "Marian")} < references


KEYS = ("ours", "reference", "dtype", "limit", "note")


def stored(ladder, trained):
    rungs = json.loads(ladder.RESULTS.read_text(encoding="utf-8"))["rungs"]
    return [[rung[key] for key in KEYS] for rung in rungs if ("trained" in rung["note"]) == trained]


def test_the_stored_table_has_the_same_rungs(ladder, rungs):
    assert stored(ladder, trained=False) == [[getattr(r, key) for key in KEYS] for r in rungs]


def test_the_stored_table_has_the_same_rungs_with_trained_weights(ladder, trained_rungs):
    assert stored(ladder, trained=True) == [[getattr(r, key) for key in KEYS] for r in trained_rungs]


def test_a_rung_that_differs_in_value_or_gradient_does_not_hold(ladder):
    x = make(2, 3).requires_grad_()
    value, gradient = ladder.difference(lambda: x, lambda: x + 1e-3, [x])
    assert value > 1e-4 and gradient == 0
    value, gradient = ladder.difference(lambda: x * 1, lambda: x.detach() + 2 * (x - x.detach()), [x])
    assert value < 1e-15 and gradient > 0.1
    rung = ladder.Rung("a", "b", "float64", value, gradient, 1e-6)
    assert not rung.holds and "FAILS" in ladder.table([rung])
    assert ladder.relative(x.detach(), x.detach()[:1]) == float("inf")
    assert ladder.relative(x.detach(), x.detach() * float("nan")) == float("inf")


def test_a_mistake_in_one_head_would_be_seen(ladder):
    ours = ladder.module(MultiHeadAttention, 8, 2, dtype=torch.float64)
    theirs = ladder.to_torch_attention(ours)
    with torch.no_grad():
        theirs.in_proj_weight[0, 0] += 1e-6
    x = ladder.leaf(2, 3, 8, torch.float64)
    value, gradient = ladder.difference(lambda: ours(x)[0], lambda: theirs(x, x, x)[0], [x])
    assert max(value, gradient) > 1e-9
