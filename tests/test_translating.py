import pytest
import torch
from sacrebleu.metrics import BLEU, CHRF
from support import assert_raises, error_table, seeded
from torch import nn

from tutorial_lib.layers import LayerConfig
from tutorial_lib.tokenizers import BOS_ID, EOS_ID, train_sentencepiece
from tutorial_lib.toy import toy_pairs
from tutorial_lib.transformer import Transformer, TransformerConfig
from tutorial_lib.translating import corpus_scores, translate

PAIRS = toy_pairs()[::100]


@pytest.fixture(scope="module")
def pieces():
    return train_sentencepiece([text for pair in PAIRS for text in pair], 150)


@pytest.fixture(scope="module")
def model(pieces):
    layer = LayerConfig(16, 2, 32)
    size = pieces.vocab_size()
    model = seeded(Transformer, TransformerConfig(size, size, layer, encoder_layers=1, decoder_layers=1))
    chance = torch.Generator().manual_seed(0)
    nn.init.normal_(
        model.source_embedding.tokens.weight, std=0.5, generator=chance
    )  # so that it says something
    return model.eval()


def by_hand(model, pieces, sentence, longest):
    """One token after the other, each time over everything so far."""
    source, said = torch.tensor([pieces.encode(sentence)]), [BOS_ID]
    for _ in range(longest):
        said.append(model(source, torch.tensor([said]))[0, -1].argmax().item())
        if said[-1] == EOS_ID:
            said.pop()
            break
    return pieces.decode(said[1:])


def test_translations_are_greedy_and_in_the_order_of_the_sentences(model, pieces):
    sentences = [pair.source for pair in PAIRS[:7]]
    expected = [by_hand(model, pieces, sentence, 12) for sentence in sentences]
    assert len(set(expected)) > 1 and all(expected)
    for size in (1, 3, 64):
        assert translate(model, pieces, sentences, max_length=12, batch_size=size) == expected


def test_a_sentence_without_a_piece_becomes_nothing(model, pieces):
    assert translate(model, pieces, ["", PAIRS[0].source, " "], max_length=5)[::2] == ["", ""]
    assert translate(model, pieces, []) == []


@error_table(
    [
        ("length", lambda: translate(None, None, ["a"], max_length=0), "max_length must be an integer of"),
        ("batch", lambda: translate(None, None, ["a"], batch_size=-1), ("batch_size", "at least 1, got -1")),
        ("one string", lambda: translate(None, None, "a b"), "several strings, got the single one 'a b'"),
    ]
)
def test_wrong_arguments_are_named(wrong, says):
    assert_raises(wrong, says)


class Parrot(nn.Module):
    """Says the source again, then <eos>, then more that must not be heard."""

    def __init__(self):
        super().__init__()
        self.place = nn.Parameter(torch.zeros(1))


def test_what_comes_after_the_end_is_not_heard(pieces, monkeypatch):
    from tutorial_lib import translating

    said = pieces.encode("책을")
    reply = torch.tensor([[*said, EOS_ID, *said]])
    monkeypatch.setattr(translating, "greedy", lambda *a, **k: reply)
    assert translate(Parrot(), pieces, ["책을"]) == ["책을"]


def test_scores_are_those_of_sacrebleu():
    guesses = ["The doctor sold a book.", "Minsu drew a hat"]
    references = ["The doctor sold a bag.", "Minsu drew a hat yesterday."]
    scores = corpus_scores(guesses, references)
    assert scores["bleu"] == BLEU().corpus_score(guesses, [references]).score
    assert scores["chrf"] == CHRF().corpus_score(guesses, [references]).score
    assert "tok:13a" in scores["bleu_signature"] and "version:" in scores["bleu_signature"]
    assert scores["chrf_signature"].startswith("nrefs:1")


def test_a_perfect_translation_has_100_and_a_foreign_one_0():
    references = [pair.target for pair in PAIRS]
    perfect = corpus_scores(references, references)
    assert perfect["bleu"] == pytest.approx(100) and perfect["chrf"] == pytest.approx(100)
    assert corpus_scores(["xq"] * len(references), references)["bleu"] == 0


def test_references_in_hangul_are_counted_by_characters():
    scores = corpus_scores(["민수가 책을 샀다."], ["민수는 책을 샀다."])
    assert "tok:char" in scores["bleu_signature"]
    assert (
        scores["bleu"]
        == BLEU(tokenize="char").corpus_score(["민수가 책을 샀다."], [["민수는 책을 샀다."]]).score
    )
    assert "tok:13a" in corpus_scores(["a"], ["The Korean word 책 is a book."])["bleu_signature"]


@pytest.mark.parametrize("guesses, references", [([], []), (["a"], [])])
def test_each_translation_needs_a_reference(guesses, references):
    with pytest.raises(ValueError, match=f"got {len(guesses)} and 0"):
        corpus_scores(guesses, references)
