import json
import sys

import pytest
import torch
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
    return list(ladder.climb())


def test_every_rung_holds_in_value_and_gradient(rungs):
    assert [r for r in rungs if not r.holds] == []


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


def test_the_stored_table_has_the_same_rungs(ladder, rungs):
    stored = json.loads(ladder.RESULTS.read_text(encoding="utf-8"))["rungs"]
    keys = ("ours", "reference", "dtype", "limit", "note")
    assert [[s[k] for k in keys] for s in stored] == [[getattr(r, k) for k in keys] for r in rungs]


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
