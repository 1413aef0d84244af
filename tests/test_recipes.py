"""From a name of data to a model: what goes into which part, and what is said about it."""

from __future__ import annotations

import gzip
import math

import pytest
import torch
from support import assert_raises, close, error_table

from tutorial_lib import recipes
from tutorial_lib.bag_of_words import BagOfWords
from tutorial_lib.recipes import RECIPES, classifier, language_model, translation
from tutorial_lib.settings import Settings
from tutorial_lib.splits import comparable, split
from tutorial_lib.toy import toy_pairs, toy_reviews

SMALL = {"vocabulary": 150, "width": 8, "heads": 2, "hidden": 16, "layers": 1}


def settings(data="toy", **more):
    return Settings(data, **{**SMALL, **more})


@pytest.fixture
def put(tmp_path, monkeypatch):
    monkeypatch.setenv("TUTORIAL_LIB_DATA", str(tmp_path))

    def put(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return str(path)

    return put


def test_translation_learns_from_the_training_part_alone():
    ready = translation(settings(limit=50, seed=3))
    parts = split(toy_pairs(), seed=3)
    assert ready.about["rows"] == {"train": 50, "valid": 320, "test": 320}
    known = {(pair.source, pair.target) for pair in parts.train}
    for source, target in zip(ready.task.sources, ready.task.targets, strict=True):
        assert (ready.pieces.decode(source), ready.pieces.decode(target)) in known


def test_the_pieces_come_from_the_training_part_alone(monkeypatch):
    seen = []
    train = recipes.train_sentencepiece
    monkeypatch.setattr(
        recipes, "train_sentencepiece", lambda texts, size: (seen.append(texts), train(texts, size))[1]
    )
    for recipe in (translation, classifier):
        recipe(settings())
    for texts, rows in zip(seen, (toy_pairs(), toy_reviews()), strict=True):
        parts = split(rows)
        learnt = {text for row in parts.train for text in row if isinstance(text, str)}
        assert set(texts) == learnt
        assert not learnt & {
            text for row in parts.test + parts.valid for text in row if isinstance(text, str)
        }


def test_translation_measures_and_reports(monkeypatch):
    ready = translation(settings())
    ready.model.eval()
    measures = ready.evaluate(ready.model)
    assert measures["loss"] == pytest.approx(math.log(150), abs=1.0)
    assert measures["perplexity"] == pytest.approx(math.exp(measures["loss"]))
    asked = {}

    def perfect(model, pieces, sentences, *, max_length):
        asked.update(longest=max_length, sentences=sentences)
        return [dict(toy_pairs())[sentence] for sentence in sentences]

    monkeypatch.setattr(recipes, "translate", perfect)
    report = ready.report(ready.model)
    assert report["bleu"] == pytest.approx(100) and "tok:13a" in report["bleu_signature"]
    assert asked["longest"] == 80 and set(asked["sentences"]) == {
        pair.source for pair in split(toy_pairs()).test
    }
    assert len(report["examples"]) == 5
    assert report["examples"][0]["translation"] == report["examples"][0]["reference"]


def test_tatoeba_and_files_of_ones_own(put):
    text = "".join(f"I have {n} books.\t나는 책이 {n}권 있다.\tCC\n" for n in range(60))
    path = put("tatoeba_kor_eng/kor.txt", text)
    ready = translation(settings("tatoeba", vocabulary=60))
    assert ready.about["origin"] == "kor.txt (another edition)" and "CC BY" in ready.about["licence"]
    assert ready.pieces.decode(ready.task.sources[0]).startswith("나는")
    turned = translation(settings("tatoeba", vocabulary=60, source="en"))
    assert turned.pieces.decode(turned.task.sources[0]).startswith("I have")
    mine = translation(settings(path, vocabulary=60, columns=(1, 0)))
    assert mine.task.fingerprint() == ready.task.fingerprint()
    put("tatoeba_kor_eng/kor.txt", text + "broken\n")
    with pytest.raises(ValueError, match="line 61"):
        translation(settings("tatoeba", vocabulary=60))
    assert translation(settings("tatoeba", vocabulary=60, on_error="skip")).about["skipped"] == {"columns": 1}


def test_classifier_reports_itself_beside_a_bag_of_words():
    ready = classifier(settings())
    measures = ready.evaluate(ready.model.eval())
    assert set(measures) == {"loss", "accuracy"} and 0 <= measures["accuracy"] <= 1
    report = ready.report(ready.model)
    parts = split(toy_reviews())
    bag = BagOfWords().fit([r.text for r in parts.train], [r.label for r in parts.train])
    right = bag.predict([r.text for r in parts.test]) == torch.tensor([r.label for r in parts.test])
    assert report["bag_of_words_accuracy"] == pytest.approx(right.double().mean().item())
    assert report["accuracy"] != measures["accuracy"]


def reviews(start, stop, more=""):
    rows = "".join(f"{n}\t영화 {n}번은 재미있다\t{n % 2}\n" for n in range(start, stop))
    return "id\tdocument\tlabel\n" + rows + more


def test_nsmc_keeps_its_own_test_and_learns_nothing_that_stands_in_it(put):
    put("nsmc/ratings_train.tsv.gz", reviews(0, 60, "90\t영화 101번은 재미있다!!\t1\n"))
    put("nsmc/ratings_test.tsv.gz", reviews(100, 110))
    ready = classifier(settings("nsmc", vocabulary=40))
    assert ready.about["rows"] == {"train": 54, "valid": 6, "test": 10}
    assert ready.about["skipped"] == {"also in the test": 1}
    learnt = {comparable(ready.pieces.decode(ids)) for ids in ready.task.texts}
    assert comparable("영화 101번은 재미있다") not in learnt
    put("nsmc/ratings_train_20k.tsv.gz", reviews(0, 40))
    put("nsmc/ratings_test_5k.tsv.gz", reviews(100, 103))
    assert classifier(settings("nsmc-small", vocabulary=40)).about["rows"]["test"] == 3


def test_bad_rows_of_nsmc_are_counted_in_both_parts_or_named(put):
    put("nsmc/ratings_train.tsv.gz", reviews(0, 60, "90\t\t1\n91\t\t0\n"))
    put("nsmc/ratings_test.tsv.gz", reviews(100, 110, "92\t\t1\n"))
    ready = classifier(settings("nsmc", vocabulary=40))
    assert ready.about["skipped"] == {"empty": 2, "also in the test": 0, "empty in the test": 1}
    with pytest.raises(ValueError, match="line 62: the text is empty"):
        classifier(settings("nsmc", vocabulary=40, on_error="raise"))


def test_a_checksum_tells_other_held_out_rows():
    first, again, other = (translation(settings(valid=valid)).held_out for valid in (20, 20, 21))
    assert first == again != other


def test_a_perplexity_that_no_float_holds_is_infinite():
    assert recipes.perplexity(2.0) == math.exp(2.0) and recipes.perplexity(1e4) == math.inf


def test_english_reviews_and_files_of_ones_own(put):
    rows = "".join(f"{n}\t{2 * (-1) ** n}\tfilm number {n}\n" for n in range(50))
    put("vader/movieReviewSnippets_GroundTruth.txt", rows)
    ready = classifier(settings("english", vocabulary=40))
    assert ready.about["licence"] == "MIT" and ready.model.output.out_features == 2
    path = put("mine.tsv", "".join(f"film {n} of many\t{'abc'[n % 3]}\n" for n in range(60)))
    mine = classifier(settings(path, vocabulary=40, labels=("a", "b", "c")))
    assert mine.model.output.out_features == 3 and set(mine.task.labels) == {0, 1, 2}
    with pytest.raises(ValueError, match="label must be one of 0, 1, got 'a'"):
        classifier(settings(path, vocabulary=40))


def test_language_model_of_the_book():
    ready = language_model(settings("book", vocabulary=1000, block=16))
    assert {len(block) for block in ready.task.blocks[:-1]} == {17}
    assert ready.task.blocks[0][0] == 3
    ready.model.eval()
    assert ready.evaluate(ready.model)["loss"] == pytest.approx(math.log(1000), abs=0.3)
    report = ready.report(ready.model)
    assert report["perplexity"] == pytest.approx(math.exp(report["loss"]))
    assert 2 < report["bits_per_character"] < 10


def test_bits_per_character_do_not_depend_on_the_pieces(put):
    """With a loss of ln 2 for every target the bits are the number of targets."""
    path = put("mine.txt", "".join(f"{n}번째 문장은 짧다\n" for n in range(80)))
    ready = language_model(settings(path, vocabulary=40, block=8, test=10))
    real = recipes.mean_loss
    try:
        recipes.mean_loss = lambda task, model: math.log(2)
        report = ready.report(ready.model)
    finally:
        recipes.mean_loss = real
    rows = split([f"{n}번째 문장은 짧다" for n in range(80)], test=10).test
    targets = sum(len(ready.pieces.encode(row)) + 1 for row in rows)
    characters = sum(len(row) + 1 for row in rows)
    assert report["bits_per_character"] == pytest.approx(targets / characters)


@pytest.mark.parametrize("job", RECIPES)
def test_the_seed_decides_the_first_weights_and_nothing_else_does(job):
    data = "book" if job == "lm" else "toy"

    def first(seed):
        torch.manual_seed(torch.seed() % 1000)
        return torch.cat(
            [
                p.flatten()
                for p in RECIPES[job](
                    settings(data, vocabulary=1000 if data == "book" else 150, seed=seed)
                ).model.parameters()
            ]
        )

    assert close(first(0), first(0), 0.0)
    assert not torch.equal(first(0), first(1))


@error_table(
    [
        ("no file", lambda: translation(settings("no/such/file")), "no/such/file: cannot be read"),
        (
            "nothing to choose by",
            lambda: translation(settings(valid=0)),
            "choose the best weights, got none with valid = 0",
        ),
        (
            "nothing to report on",
            lambda: classifier(settings(test=0)),
            "measure them, got none with test = 0",
        ),
        (
            "too many pieces",
            lambda: language_model(settings("book", vocabulary=10**5)),
            "does not fit this text",
        ),
    ]
)
def test_what_cannot_be_used_is_named(wrong, says):
    assert_raises(wrong, says)
