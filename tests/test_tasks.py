"""What each task shows to the model, and what it counts."""

from __future__ import annotations

import math

import pytest
import torch
from support import assert_raises, close, error_table
from torch import nn

from tutorial_lib.tasks import ClassificationTask, LanguageTask, TranslationTask, accuracy, mean_loss

CPU = torch.device("cpu")


class Uniform(nn.Module):
    """Scores every class alike, remembers what it was shown."""

    def __init__(self, classes=11):
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(classes, dtype=torch.float64))
        self.seen = []

    def forward(self, *ids):
        self.seen.append([one.tolist() for one in ids])
        return self.scores.expand(*ids[-1].shape, -1)


def test_translation_shows_the_target_shifted_and_wants_its_end():
    task, model = TranslationTask([[5], [6, 7]], [[8, 9], []]), Uniform()
    loss = task.loss(model, [0, 1], CPU)
    assert model.seen == [[[[5, 0], [6, 7]], [[2, 8, 9], [2, 0, 0]]]]
    assert task.weight([0, 1]) == 4 and task.weight([1]) == 1 and task.lengths == [3, 2]
    assert loss.item() == pytest.approx(4 * math.log(11))


def test_translation_counts_the_right_ids():
    task, model = TranslationTask([[5], [6]], [[8, 9], [8]]), Uniform()
    task.loss(model, [0, 1], CPU).backward()
    wanted = torch.zeros(11, dtype=torch.float64)
    wanted[[8, 9, 3]] = torch.tensor([2.0, 1.0, 2.0], dtype=torch.float64)  # 3 is <eos>, 0 is padding
    assert close(model.scores.grad, 5 / 11 - wanted)


def test_language_targets_are_every_token_but_the_first_once():
    ids = [3, 5, 6, 7, 3, 8, 9, 3]
    task = LanguageTask(ids, 3)
    assert task.blocks == [[3, 5, 6, 7], [7, 3, 8, 9], [9, 3]]
    assert task.weight([0, 1, 2]) == 7 and task.lengths == [4, 4, 2]
    model = Uniform()
    loss = task.loss(model, [0, 2], CPU)
    assert model.seen == [[[[3, 5, 6], [9, 0, 0]]]]
    assert loss.item() == pytest.approx(4 * math.log(11))
    loss.backward()
    wanted = torch.zeros(11, dtype=torch.float64)
    wanted[[5, 6, 7, 3]] = 1.0
    assert close(model.scores.grad, 4 / 11 - wanted)


class FirstId(nn.Module):
    """The class is the text's first id."""

    def __init__(self):
        super().__init__()
        self.place = nn.Parameter(torch.zeros(1))

    def forward(self, ids):
        return nn.functional.one_hot(ids[:, 0], 8).float()


def test_accuracy_is_the_share_of_right_classes_whatever_the_batches():
    task = ClassificationTask([[5, 6], [7], [4, 4, 4], [5]], [5, 7, 3, 5])
    for size in (1, 3, 64):
        assert accuracy(task, FirstId(), batch_size=size) == 0.75
        expected = (3 * -math.log(math.e / (math.e + 7)) + math.log(math.e + 7)) / 4
        assert mean_loss(task, FirstId(), batch_size=size) == pytest.approx(expected)
    assert task.weight([1, 2]) == 2 and task.lengths == [2, 1, 3, 1]


def test_the_mean_loss_is_over_targets_not_over_rows():
    task = TranslationTask([[5], [6]], [[8] * 9, []])
    model = Uniform()
    with torch.no_grad():
        model.scores[8] = 2.0
    right, end = 2.0 - math.log(math.exp(2) + 10), -math.log(math.exp(2) + 10)
    for size in (1, 2):
        assert mean_loss(task, model, batch_size=size) == pytest.approx(-(9 * right + 2 * end) / 11)


def test_smoothing_reaches_the_loss():
    for task, model in (
        (TranslationTask([[5]], [[8]]), Uniform()),
        (ClassificationTask([[5]], [5]), FirstId()),
        (LanguageTask([3, 5], 1), Uniform()),
    ):
        if isinstance(model, Uniform):
            model.scores.data[3] = 4.0
        assert task.loss(model, [0], CPU, 0.2).item() != task.loss(model, [0], CPU).item()


def test_the_fingerprint_is_of_the_data():
    def prints(*tasks):
        return [task.fingerprint() for task in tasks]

    same = prints(TranslationTask([[5]], [[8]]), TranslationTask(((5,),), ((8,),)))
    assert same[0] == same[1]
    others = prints(
        TranslationTask([[5]], [[8, 9]]), TranslationTask([[8]], [[5]]), ClassificationTask([[5]], [0]),
        ClassificationTask([[5]], [1]), LanguageTask([5, 6], 1), LanguageTask([5, 6, 7], 1), LanguageTask([5, 6, 7], 2),
    )  # fmt: skip
    assert len({*same, *others}) == 8


@error_table(
    [
        ("no pair", lambda: TranslationTask([], []), "got 0 and 0"),
        ("one target too few", lambda: TranslationTask([[1]], []), "got 1 and 0"),
        ("an empty source", lambda: TranslationTask([[1], []], [[1], [1]]), "none in row 1"),
        ("no text", lambda: ClassificationTask([], []), "got 0 and 0"),
        ("a label too many", lambda: ClassificationTask([[1]], [0, 1]), "got 1 and 2"),
        ("an empty text", lambda: ClassificationTask([[]], [0]), "none in row 0"),
        ("one id", lambda: LanguageTask([3], 4), "at least two, got 1"),
        ("no context", lambda: LanguageTask([3, 4], 0), "block"),
    ]
)
def test_impossible_data_is_refused(wrong, says):
    assert_raises(wrong, says)
