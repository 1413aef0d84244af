import json
import sys

import pytest
import torch
from test_pretrained import gpt2, llama

from tutorial_lib.pretrained import gpt2_from_hugging_face, llama_from_hugging_face

MODELS = {"gpt2": (gpt2, gpt2_from_hugging_face), "llama": (llama, llama_from_hugging_face)}


@pytest.fixture
def bench(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import generation

    def small(name):
        build, convert = MODELS[name]
        theirs = build()
        return convert(theirs), theirs

    monkeypatch.setattr(generation, "MODELS", {name: (lambda name=name: small(name)) for name in MODELS})
    return generation


@pytest.mark.parametrize("name", MODELS)
def test_both_generate_the_same(bench, name):
    prompt = torch.randint(3, 60, (2, 5), generator=torch.Generator().manual_seed(0))
    runs = bench.candidates(*bench.MODELS[name](), prompt, 6)
    assert torch.equal(runs["ours"](), runs["theirs"]()) and runs["ours"]().shape == (2, 6)
    assert runs["products"]() is None


def test_every_round_runs_every_candidate_once_in_another_order(bench):
    calls = []
    runs = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    times = bench.in_turns(runs, 4)
    assert "".join(calls) == "abc" + "abc" + "bca" + "cab" + "abc"
    assert all(len(one) == 4 for one in times.values())


def test_the_peak_of_a_call_is_what_it_needs_at_once(bench):
    each = 40e6 / 2**20  # above glibc's largest threshold: such memory goes back at once
    at_once = bench.peak_memory(lambda: [torch.ones(10_000_000) for _ in range(4)])
    assert at_once == pytest.approx(4 * each, rel=0.1)

    def in_turns():
        for _ in range(4):
            torch.ones(10_000_000)

    # The least of three: on a busy machine one of a dozen readings was one block too high.
    assert min(bench.peak_memory(in_turns) for _ in range(3)) == pytest.approx(each, rel=0.2)


def test_the_result_is_printed_and_stored(bench, tmp_path, monkeypatch, capsys):
    settings = ["--out", str(tmp_path / "g.json"), "--rounds", "2", "--prompt", "3", "--new", "4"]
    monkeypatch.setattr(sys, "argv", ["generation.py", *settings])
    bench.main()
    stored = json.loads((tmp_path / "g.json").read_text())
    assert [(r["model"], r["batch"]) for r in stored["rows"]] == [(n, b) for n in MODELS for b in (1, 8)]
    assert all(r["same_tokens"] == 1 and r["ratio"] > 0 and r["rounds"] == 2 for r in stored["rows"])
    printed = capsys.readouterr().out
    assert "quartiles" in printed and "100.0%" in printed
