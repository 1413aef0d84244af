import json
import sys

import pytest
import torch
from support import close

PASSES = pytest.mark.parametrize("backward", [False, True])


@pytest.fixture
def speed(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import speed

    for name, value in {"BATCH": 1, "WIDTH": 8, "HEADS": 2, "HIDDEN": 16, "LENGTHS": (3,)}.items():
        monkeypatch.setattr(speed, name, value)
    return speed


@PASSES
@pytest.mark.parametrize("build", ["attention_candidates", "weights_candidates", "encoder_candidates"])
def test_the_candidates_compute_the_same(speed, build, backward):
    candidates = getattr(speed, build)()
    x = torch.randn(1, 3, 8, requires_grad=True)
    outputs = {name: c.call(x) for name, c in candidates.items()}
    close(outputs["torch"], outputs["ours"], 1e-5)
    close(outputs["keras"], outputs["ours"], 1e-5)
    for candidate in candidates.values():
        candidate.run(x, backward)
        assert x.grad is None and len(candidate.parameters) >= 4


@PASSES
def test_every_round_runs_every_candidate_once(speed, backward):
    calls = []

    class Counted:
        def __init__(self, name):
            self.name = name

        def run(self, x, backward):
            calls.append(self.name)

    candidates = {name: Counted(name) for name in ("ours", "torch")}
    (row,) = speed.measure(candidates, 3, backward, True, 0.0)
    assert row["rounds"] == 9 and calls.count("ours") == calls.count("torch") == 9 + 1
    assert row["reference"] == "torch" and row["products_ms"] >= 0


def test_the_result_is_printed_and_stored(speed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["speed.py", "--out", str(tmp_path / "s.json"), "--seconds", "0"])
    speed.main()
    stored = json.loads((tmp_path / "s.json").read_text())
    assert len(stored["rows"]) == 3 * 1 * 2 * 2  # subjects, lengths, passes, references
    assert "attention with weights" in capsys.readouterr().out


def test_the_stored_result_has_every_row(root):
    stored = json.loads((root / "benchmarks" / "results" / "speed.json").read_text(encoding="utf-8"))
    rows = {(r["what"], r["length"], r["pass"], r["reference"]) for r in stored["rows"]}
    assert len(rows) == len(stored["rows"]) == 3 * 2 * 2 * 2
    assert all(r["rounds"] >= 9 for r in stored["rows"])
