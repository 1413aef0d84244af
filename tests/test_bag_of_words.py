import torch
import torch.nn.functional as F
from support import assert_raises, error_table

from tutorial_lib.bag_of_words import BagOfWords
from tutorial_lib.toy import toy_reviews

TEXTS = ["good good film", "bad film", "good plot", "bad bad plot", "good", "film"]
LABELS = [1, 0, 1, 0, 1, 0]


def test_it_learns_which_words_are_good():
    bag = BagOfWords().fit(TEXTS, LABELS)
    assert bag.words == {"bad": 0, "film": 1, "good": 2, "plot": 3}
    assert bag.predict(["a good film", "bad plot", "good good bad"]).tolist() == [1, 0, 1]


def test_rare_and_unknown_words_count_nothing():
    bag = BagOfWords(at_least=3).fit(TEXTS, LABELS)
    assert bag.words == {"film": 0, "good": 1}
    assert torch.equal(bag.predict(["zzz", ""]), bag.bias.argmax().expand(2))


def test_the_gradient_is_zero_where_it_stops():
    """Independent of the solver: dense counts, and the optimum's own condition."""
    bag = BagOfWords(penalty=0.01, at_least=1).fit(TEXTS, LABELS)
    counts = torch.tensor(
        [[t.split().count(w) for w in bag.words] for t in TEXTS], dtype=torch.float64
    ).log1p()
    weight = bag.weight.clone().requires_grad_()
    loss = F.cross_entropy(counts @ weight + bag.bias, torch.tensor(LABELS))
    loss = loss + 0.005 * weight.square().sum()
    (gradient,) = torch.autograd.grad(loss, weight)
    assert gradient.abs().max() < 1e-5
    assert bag.weight.abs().max() > 0.5


def test_every_run_gives_the_same_numbers():
    torch.manual_seed(1)
    first = BagOfWords().fit(TEXTS, LABELS)
    torch.manual_seed(2)
    assert torch.equal(first.weight, BagOfWords().fit(TEXTS, LABELS).weight)


def test_more_than_two_classes_and_other_words():
    bag = BagOfWords(3, cut=list, at_least=1).fit(["aa", "bb", "cc"], [2, 0, 1])
    assert bag.predict(["ccc", "a"]).tolist() == [1, 2]


def test_it_cannot_tell_the_toy_reviews_apart():
    reviews = toy_reviews()
    bag = BagOfWords().fit([r.text for r in reviews], [r.label for r in reviews])
    right = (
        (bag.predict([r.text for r in reviews]) == torch.tensor([r.label for r in reviews])).double().mean()
    )
    assert right < 0.55


@error_table(
    [
        ("no text", lambda: BagOfWords().fit([], []), "got 0 texts and 0 labels"),
        ("numbers differ", lambda: BagOfWords().fit(["a"], [0, 1]), "got 1 texts and 2 labels"),
        ("a class too many", lambda: BagOfWords().fit(["a", "b"], [0, 2]), "between 0 and 1, got 0 to 2"),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
