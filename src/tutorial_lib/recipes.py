"""From a name of data to a model that can be trained and measured: translation, classes, language (chapters 10, 11)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import sentencepiece
from torch import nn

from tutorial_lib import corpora
from tutorial_lib.bag_of_words import BagOfWords
from tutorial_lib.corpora import Corpus, Labelled, Pair
from tutorial_lib.data import book_corpus
from tutorial_lib.decoder_only import DecoderOnly, DecoderOnlyConfig
from tutorial_lib.encoder_only import EncoderOnlyConfig
from tutorial_lib.seeding import seeded
from tutorial_lib.settings import NSMC, Settings
from tutorial_lib.splits import Split, comparable, sample, split
from tutorial_lib.tasks import ClassificationTask, LanguageTask, TranslationTask, accuracy, mean_loss
from tutorial_lib.text_classifier import TextClassifier
from tutorial_lib.tokenizers import EOS_ID, PAD_ID, train_sentencepiece
from tutorial_lib.toy import toy_pairs, toy_reviews
from tutorial_lib.training import Task
from tutorial_lib.transformer import Transformer, TransformerConfig
from tutorial_lib.translating import corpus_scores, translate
from tutorial_lib.validation import require_choice

NAMED_REVIEWS = ("toy", *NSMC, "english")
NEEDED_TO = {"valid": "choose the best weights", "test": "measure them"}


@dataclass(frozen=True)
class Prepared:
    """Everything that a training run needs.

    Attributes:
        model:  with its first weights.
        task:   what it learns from.
        evaluate: measures of the validation rows.
        report: measures of the test rows, once, at the end.
        pieces: cuts text into ids and puts it together again.
        held_out: checksum of the validation and test rows.
        about:  origin and licence of the data, rows left out, sizes of the parts, number of parameters.
    """

    model: nn.Module
    task: Task
    evaluate: Callable[[nn.Module], dict]
    report: Callable[[nn.Module], dict]
    pieces: sentencepiece.SentencePieceProcessor
    held_out: str
    about: dict = field(default_factory=dict)


def build_model(job: str, settings: Settings, vocabulary: int) -> Transformer | TextClassifier | DecoderOnly:
    """Return the model of a job, one of `RECIPES`, with its first weights, for so many pieces.

    Raises:
        ValueError: if there is no such job, or a setting does not fit.
    """
    require_choice("job", job, tuple(RECIPES))
    layer = settings.layer()
    with seeded(settings.seed):
        if job == "translation":
            sizes = {"encoder_layers": settings.layers, "decoder_layers": settings.layers}
            std = settings.width**-0.5  # times sqrt(D): as large as the positions that are added
            return Transformer(TransformerConfig(vocabulary, vocabulary, layer, **sizes, embedding_std=std))
        if job == "classifier":
            # Rotary: added positions would drown the small vectors that tokens begin with.
            encoder = EncoderOnlyConfig(vocabulary, layer, settings.layers, "rotary")
            return TextClassifier(encoder, _classes(settings), dropout=settings.dropout)
        return DecoderOnly(
            DecoderOnlyConfig(
                vocabulary, layer, settings.layers, "learned", settings.block, padding_id=PAD_ID
            )
        )


def translation(settings: Settings) -> Prepared:
    """Prepare an encoder-decoder for sentence pairs: "toy", "tatoeba", or a file with two columns.

    Raises:
        ValueError: if data or settings cannot be used.
    """
    if settings.data == "toy":
        corpus = Corpus(toy_pairs(), "toy pairs of this library", "MIT")
    elif settings.data == "tatoeba":
        corpus = corpora.tatoeba(source=settings.source, on_error=settings.bad_rows)
    else:
        corpus = corpora.pairs(settings.data, columns=settings.columns, on_error=settings.bad_rows)
    parts = _limited(
        split(corpus.rows, valid=settings.valid, test=settings.test, seed=settings.seed), settings
    )
    pieces = train_sentencepiece([text for pair in parts.train for text in pair], settings.vocabulary)

    def task(rows: list[Pair]) -> TranslationTask:
        return TranslationTask(
            pieces.encode([r.source for r in rows]), pieces.encode([r.target for r in rows])
        )

    model, valid = build_model("translation", settings, pieces.vocab_size()), task(parts.valid)

    def report(model: nn.Module) -> dict:
        guesses = translate(model, pieces, [r.source for r in parts.test], max_length=settings.max_length)
        shown = [
            {"source": r.source, "reference": r.target, "translation": guess}
            for r, guess in list(zip(parts.test, guesses, strict=True))[:5]
        ]
        return {**corpus_scores(guesses, [r.target for r in parts.test]), "examples": shown}

    return Prepared(
        model,
        task(parts.train),
        _perplexity(valid),
        report,
        pieces,
        parts.held_out(),
        _about(corpus, parts, model),
    )


def classifier(settings: Settings) -> Prepared:
    """Prepare an encoder for labelled texts: "toy", "nsmc", "nsmc-small", "english", or a file with two columns.

    The test of NSMC is its own; training rows whose text occurs in it are left out and counted.

    Raises:
        ValueError: if data or settings cannot be used.
    """
    corpus, parts = _labelled_parts(settings)
    parts = _limited(parts, settings)
    pieces = train_sentencepiece([row.text for row in parts.train], settings.vocabulary)

    def task(rows: list[Labelled]) -> ClassificationTask:
        return ClassificationTask(pieces.encode([r.text for r in rows]), [r.label for r in rows])

    model = build_model("classifier", settings, pieces.vocab_size())
    valid, test = task(parts.valid), task(parts.test)

    def evaluate(model: nn.Module) -> dict:
        return {"loss": mean_loss(valid, model), "accuracy": accuracy(valid, model)}

    def report(model: nn.Module) -> dict:
        bag = BagOfWords(_classes(settings))
        bag.fit([r.text for r in parts.train], [r.label for r in parts.train])
        guesses = bag.predict([r.text for r in parts.test]).tolist()
        right = sum(guess == r.label for guess, r in zip(guesses, parts.test, strict=True))
        return {"accuracy": accuracy(test, model), "bag_of_words_accuracy": right / len(parts.test)}

    return Prepared(
        model, task(parts.train), evaluate, report, pieces, parts.held_out(), _about(corpus, parts, model)
    )


def _classes(settings: Settings) -> int:
    return 2 if settings.data in NAMED_REVIEWS else max(2, len(settings.labels))


def _labelled_parts(settings: Settings) -> tuple[Corpus[Labelled], Split[Labelled]]:
    shares = {"valid": settings.valid, "seed": settings.seed}
    if settings.data in NSMC:
        size = "full" if settings.data == "nsmc" else "small"
        corpus, test = (
            corpora.nsmc(part, size=size, on_error=settings.bad_rows) for part in ("train", "test")
        )
        known = {comparable(row.text) for row in test.rows}
        rows = [row for row in corpus.rows if comparable(row.text) not in known]
        skipped = {
            **corpus.skipped,
            "also in the test": len(corpus.rows) - len(rows),
            **{f"{kind} in the test": count for kind, count in test.skipped.items()},
        }
        parts = split(rows, test=0, **shares)
        return replace(corpus, skipped=skipped), replace(parts, test=test.rows)
    if settings.data == "toy":
        corpus = Corpus(toy_reviews(), "toy reviews of this library", "MIT")
    elif settings.data == "english":
        corpus = corpora.english_reviews(on_error=settings.bad_rows)
    else:
        corpus = corpora.labelled(
            settings.data, columns=settings.columns, labels=settings.labels, on_error=settings.bad_rows
        )
    return corpus, split(corpus.rows, test=settings.test, **shares)


def language_model(settings: Settings) -> Prepared:
    """Prepare a decoder for running text: "book" (this book's own sentences), or a file of text.

    Raises:
        ValueError: if data or settings cannot be used.
    """
    if settings.data == "book":
        rows = book_corpus("train") + book_corpus("heldout")
        corpus = Corpus(rows, "sentences of this book", "CC BY 4.0")
    else:
        corpus = corpora.plain_text(settings.data, on_error=settings.bad_rows)
    parts = _limited(
        split(corpus.rows, valid=settings.valid, test=settings.test, seed=settings.seed), settings
    )
    pieces = train_sentencepiece(parts.train, settings.vocabulary)

    def task(rows: list[str]) -> LanguageTask:
        ids = [EOS_ID]
        for sentence in pieces.encode(rows):
            ids += [*sentence, EOS_ID]
        return LanguageTask(ids, settings.block)

    model = build_model("lm", settings, pieces.vocab_size())
    valid, test = task(parts.valid), task(parts.test)
    characters = sum(len(row) + 1 for row in parts.test)  # a sentence's end counts as one

    def report(model: nn.Module) -> dict:
        loss = mean_loss(test, model)
        bits = loss * test.weight(range(len(test.lengths))) / math.log(2)
        return {"loss": loss, "perplexity": perplexity(loss), "bits_per_character": bits / characters}

    return Prepared(
        model,
        task(parts.train),
        _perplexity(valid),
        report,
        pieces,
        parts.held_out(),
        _about(corpus, parts, model),
    )


def perplexity(loss: float) -> float:
    """exp(loss); infinite where no float is large enough."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def _perplexity(valid: Task) -> Callable[[nn.Module], dict]:
    def evaluate(model: nn.Module) -> dict:
        loss = mean_loss(valid, model)
        return {"loss": loss, "perplexity": perplexity(loss)}

    return evaluate


def _limited(parts: Split, settings: Settings) -> Split:
    for name, purpose in NEEDED_TO.items():
        if not getattr(parts, name):
            raise ValueError(
                f"a run needs rows to {purpose}, got none with {name} = {getattr(settings, name)!r}: "
                "give more data, or a larger share"
            )
    if not settings.limit:
        return parts
    return replace(parts, train=sample(parts.train, settings.limit, seed=settings.seed))


def _about(corpus: Corpus, parts: Split, model: nn.Module) -> dict:
    sizes = {name: len(getattr(parts, name)) for name in ("train", "valid", "test")}
    return {
        "origin": corpus.origin,
        "licence": corpus.licence,
        "skipped": corpus.skipped,
        "rows": sizes,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


RECIPES: dict[str, Callable[[Settings], Prepared]] = {
    "translation": translation,
    "classifier": classifier,
    "lm": language_model,
}
