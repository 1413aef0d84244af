"""What a training run depends on: its data, its model, and how it learns; checked when it is said (chapter 10)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from tutorial_lib.layers import LayerConfig
from tutorial_lib.reading import ON_ERROR
from tutorial_lib.schedules import SCHEDULES, learning_rate
from tutorial_lib.seeding import mixed_seed
from tutorial_lib.splits import require_part
from tutorial_lib.validation import require_choice, require_positive, require_probability

PRECISIONS = ("no", "bf16", "fp16")
NSMC = ("nsmc", "nsmc-small")
AT_BAD_ROWS = ("auto", *ON_ERROR)
SOURCES = ("ko", "en")


@dataclass(frozen=True)
class Settings:
    """What to train on, and how large a model.

    Attributes:
        data:   a name, or the path of a file; see `translation`, `classifier` and `language_model`.
        on_error: "raise" at the first bad row, or "skip" and count; "auto" skips in NSMC, which is published
            with empty rows, and raises elsewhere.
        limit:  at most so many training rows, chosen by a hash of their text; 0 for all.
        valid, test: rows or shares that are held out.
        columns: of the source and target, or of text and label, in a file of your own.
        labels: as a file of your own writes them.
        source: language to translate from in Tatoeba's pairs, "ko" or "en".
        vocabulary: number of SentencePiece's pieces.
        width, heads, hidden, layers, dropout, norm: of the model, see `LayerConfig`.
        block:  longest context of a language model.
        max_length: longest translation, in pieces.
        seed:   of the split and of the first weights.

    Raises:
        ValueError: if a number or name is impossible.
    """

    data: str
    on_error: str = "auto"
    limit: int = 0
    valid: float = 0.1
    test: float = 0.1
    columns: tuple[int, int] = (0, 1)
    labels: tuple[str, ...] = ("0", "1")
    source: str = "ko"
    vocabulary: int = 300
    width: int = 64
    heads: int = 4
    hidden: int = 128
    layers: int = 2
    dropout: float = 0.1
    norm: str = "pre"
    block: int = 64
    max_length: int = 80
    seed: int = 0

    def __post_init__(self) -> None:
        require_choice("on_error", self.on_error, AT_BAD_ROWS)
        require_choice("source", self.source, SOURCES)
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or self.limit < 0:
            raise ValueError(f"limit must be 0 (no limit) or more, got {self.limit!r}")
        require_part("valid", self.valid)
        require_part("test", self.test)
        if len(self.columns) != 2 or not all(isinstance(one, int) and one >= 0 for one in self.columns):
            raise ValueError(f"columns must be two numbers from 0, got {self.columns!r}")
        if not all(isinstance(label, str) for label in self.labels):
            raise ValueError(f"labels must be strings, as the file writes them, got {self.labels!r}")
        require_positive(
            vocabulary=self.vocabulary, layers=self.layers, block=self.block, max_length=self.max_length
        )
        mixed_seed(self.seed)
        self.layer()  # refuses what the model's sizes cannot be

    @property
    def bad_rows(self) -> str:
        """What becomes of bad rows in these data, "raise" or "skip"."""
        if self.on_error != "auto":
            return self.on_error
        return "skip" if self.data in NSMC else "raise"

    def layer(self) -> LayerConfig:
        """Return the shape of the layers."""
        return LayerConfig(self.width, self.heads, self.hidden, norm=self.norm, dropout=self.dropout)


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides what a run learns, beside its model and its data.

    Attributes:
        updates: how often the weights change.
        batch_size: rows in one update, over all processes and pieces together.
        accumulation: pieces in which one process computes its share, to save memory.
        schedule, peak, warmup: of the learning rate, see `learning_rate`.
        label_smoothing: share of the target that is spread over all ids (Vaswani et al. 2017, section 5.4).
        clip: largest norm of the gradient; 0 for no limit.
        weight_decay: of AdamW (Loshchilov & Hutter 2019).
        betas, eps: of Adam (Vaswani et al. 2017, section 5.3).
        precision: "no", "bf16" or "fp16".
        seed: of the order of the data and of dropout.
        evaluate_every, save_every: updates between evaluations, and between checkpoints.
        keep: number of checkpoints that stay.

    Raises:
        ValueError: if a number or name is impossible.
    """

    updates: int = 200
    batch_size: int = 32
    accumulation: int = 1
    schedule: str = "cosine"
    peak: float = 1e-3
    warmup: int = 20
    label_smoothing: float = 0.0
    clip: float = 1.0
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    precision: str = "no"
    seed: int = 0
    evaluate_every: int = 100
    save_every: int = 100
    keep: int = 2

    def __post_init__(self) -> None:
        require_positive(
            updates=self.updates,
            batch_size=self.batch_size,
            accumulation=self.accumulation,
            evaluate_every=self.evaluate_every,
            save_every=self.save_every,
            keep=self.keep,
        )
        require_choice("schedule", self.schedule, SCHEDULES)
        require_choice("precision", self.precision, PRECISIONS)
        require_probability("label_smoothing", self.label_smoothing)
        for name in ("clip", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be finite and not negative, got {getattr(self, name)!r}")
        for name in ("peak", "eps"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {getattr(self, name)!r}")
        if len(self.betas) != 2:
            raise ValueError(f"betas must be two numbers, got {self.betas!r}")
        for beta in self.betas:
            require_probability("betas", beta)
        mixed_seed(self.seed)
        learning_rate(1, self.updates, schedule=self.schedule, peak=self.peak, warmup=self.warmup)

    def identity(self) -> dict:
        """Return what a resumed run must have in common with the one that was stopped."""
        return {name: value for name, value in asdict(self).items() if name not in ("save_every", "keep")}
