"""What the page of measurements says must be in the files that its tables are made of."""

import sys
from itertools import pairwise
from statistics import mean

import pytest

LANGUAGES = ("en", "ko")


@pytest.fixture
def measured(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "book" / "ext"))
    monkeypatch.delitem(sys.modules, "measured", raising=False)
    import measured

    return measured


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", ["ladder", "speed", "training", "generation", "real_data"])
def test_every_row_fills_its_table(measured, name, language):
    from docutils import nodes

    rows = measured.TABLES[name]()
    if language == "ko":
        rows = [tuple(measured.WORDS.get(cell, cell) for cell in row) for row in rows]
    shown = measured.table(name, language)
    entries = [[cell.astext() for cell in row.findall(nodes.entry)] for row in shown.findall(nodes.row)]
    assert entries[0] == list(measured.HEADS[name][language])
    assert entries[1:] == [[str(cell) for cell in row] for row in rows]
    assert len(set(map(len, entries))) == 1 and len(rows) >= 3


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_shows_every_table(root, language):
    page = (root / "book" / language / "measured.md").read_text(encoding="utf-8")
    for name in ("speed", "training", "generation", "real_data"):
        assert page.count(f"```{{measured}} {name}\n") == 1


def test_generation_is_not_1_3_times_as_fast_and_writes_the_same(measured):
    stored = measured.read("generation")
    assert (stored["setting"]["prompt"], stored["setting"]["new"]) == (64, 32)
    for row in stored["rows"]:
        assert row["same_tokens"] == 1.0
        assert 0.7 < row["peak_mib"]["ours"] / row["peak_mib"]["theirs"] < 1.4  # "about the same memory"
        assert row["highest_ratio"] < 1.3 or row["batch"] > 1  # of the products alone
        assert row["tokens_per_second"]["products"] < 1.6 * row["tokens_per_second"]["ours"]
    assert min(row["ratio"] for row in stored["rows"]) < 1.3


def test_all_times_are_of_the_same_kind_of_machine(measured):
    for name in ("speed", "training", "generation"):
        stored = measured.read(name)
        assert (stored["processor"], stored["setting"]["dtype"]) == ("AMD EPYC", "float32")
        assert stored["clock"] == "time.process_time, one thread"
        assert min(row["rounds"] for row in stored["rows"]) >= 5
    setting = measured.read("speed")["setting"]
    assert (setting["batch"], setting["width"], setting["heads"]) == (8, 256, 8)
    forward = [r for r in measured.read("speed")["rows"] if r["what"] == "attention with weights"]
    assert max(r["ratio"] for r in forward if (r["reference"], r["pass"]) == ("torch", "forward")) > 1.1


def test_what_is_said_of_the_real_data(measured):
    runs = measured.read("real_data")
    assert 3000 < sum(run["seconds"] for run in runs) < 4200 and len(runs) == 9  # "about an hour"
    bleu = [run for run in runs if run["job"] == "tatoeba"]
    shown = [example for run in bleu for example in run["test"]["examples"]]
    assert len(shown) == 15 and sum(one["translation"] == one["reference"] for one in shown) == 2
    assert all(run["test"]["bleu"] < 10 and run["data"]["rows"]["train"] > 3000 for run in bleu)
    assert all(run["best"]["update"] == 1500 and "--updates 1500" in run["command"] for run in bleu)
    assert {round(run["data"]["parameters"] / 1e6, 1) for run in bleu} == {0.9}
    reviews = [run for run in runs if run["job"] != "tatoeba"]
    assert {round(run["data"]["parameters"] / 1e6, 1) for run in reviews} == {0.3}
    for run in reviews:
        assert 0.055 < run["test"]["accuracy"] - run["test"]["bag_of_words_accuracy"] < 0.07
        assert (
            "not the published split" in run["data"]["origin"] and run["data"]["skipped"]["also in the test"]
        )
    sizes = {
        job: {r["data"]["rows"]["train"] for r in reviews if r["job"] == job}
        for job in ("nsmc-small", "nsmc")
    }
    (few,), (many,) = sizes.values()
    assert (round(few, -3), round(many, -3)) == (19_000, 148_000) and round(many / few) == 8
    for measure in ("accuracy", "bag_of_words_accuracy"):
        means = [mean(r["test"][measure] for r in reviews if r["job"] == job) for job in sizes]
        for before, after in pairwise(means):
            assert 0.025 < after - before < 0.035


def test_every_table_has_its_heads(measured):
    assert set(measured.TABLES) == set(measured.HEADS)
    assert all(set(heads) == set(LANGUAGES) for heads in measured.HEADS.values())
