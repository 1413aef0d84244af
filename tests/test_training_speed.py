import json
import sys

import pytest
import torch
from torch import nn

SMALL = {
    "WIDTH": 16,
    "HEADS": 2,
    "HIDDEN": 24,
    "LAYERS": 1,
    "VOCABULARY": 30,
    "SENTENCES": 2,
    "LENGTH": 5,
    "GPT2_WIDTH": 16,
    "GPT2_HEADS": 2,
    "GPT2_LAYERS": 2,
    "TEXTS": 2,
    "TEXT_LENGTH": 6,
    "DROPOUT": 0.0,  # so that both sides have the same loss
}


@pytest.fixture
def bench(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import training

    for name, value in SMALL.items():
        monkeypatch.setattr(training, name, value)
    return training


@pytest.mark.parametrize("name", ["nn.Transformer", "Hugging Face Marian", "Hugging Face GPT-2"])
def test_both_take_the_same_steps(bench, name, monkeypatch):
    stock = bench.GPT2Config
    quiet = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    monkeypatch.setattr(bench, "GPT2Config", lambda **sizes: stock(**sizes, **quiet))
    torch.manual_seed(0)
    runs = bench.SUBJECTS[name]()
    for _ in range(3):  # the second and third loss come after the optimizer's work
        assert runs["ours"]() == pytest.approx(runs["theirs"](), rel=1e-4)


def test_a_step_trains_every_parameter(bench):
    model = nn.Linear(3, 4)
    before = [parameter.clone() for parameter in model.parameters()]
    x, labels = torch.randn(2, 5, 3), torch.zeros(2, 5, dtype=torch.long)
    step = bench.stepper(model, lambda one: one(x), labels)
    assert step() > step()
    assert all(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_the_result_is_printed_and_stored(bench, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["training.py", "--out", str(tmp_path / "t.json"), "--rounds", "2"])
    bench.main()
    stored = json.loads((tmp_path / "t.json").read_text())
    assert [row["against"] for row in stored["rows"]] == list(bench.SUBJECTS)
    assert all(row["ms"]["theirs"] > 0 and row["rounds"] == 2 for row in stored["rows"])
    assert "quartiles" in capsys.readouterr().out
