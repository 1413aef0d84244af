"""The recurrent encoder-decoder, without attention and with it (built in chapter 02)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tutorial_lib.scores import AdditiveScore, GeneralScore, attend
from tutorial_lib.validation import (
    require_choice,
    require_ids,
    require_positive,
    require_probability,
    require_same_batch,
)

ATTENTIONS = ("none", "additive", "multiplicative")


@dataclass(frozen=True)
class RecurrentConfig:
    """Everything that defines a `RecurrentTranslator`.

    Attributes:
        source_vocabulary, target_vocabulary: numbers of ids.
        embedding_width: E, width of the token vectors.
        width:     D, width of the states; even, for each direction of the encoder has half of it.
        attention: "none", "additive" (2014) or "multiplicative" (2015).
        padding_id: the id that fills up short sentences, after their last token.
        dropout:   of the token vectors and of what the output layer reads.

    Raises:
        ValueError: if a size, probability or name is impossible.
    """

    source_vocabulary: int
    target_vocabulary: int
    embedding_width: int = 32
    width: int = 128
    attention: str = "additive"
    padding_id: int = 0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_positive(
            source_vocabulary=self.source_vocabulary,
            target_vocabulary=self.target_vocabulary,
            embedding_width=self.embedding_width,
            width=self.width,
        )
        require_choice("attention", self.attention, ATTENTIONS)
        require_probability("dropout", self.dropout)
        if self.width % 2:
            raise ValueError(f"width must be even (two directions of width / 2), got {self.width}")
        smaller = min(self.source_vocabulary, self.target_vocabulary)
        if not 0 <= self.padding_id < smaller:
            raise ValueError(f"padding_id must lie between 0 and {smaller - 1}, got {self.padding_id}")


class RecurrentEncoder(nn.Module):
    """A bidirectional GRU: one state for each source token, and a summary of the sentence.

    Args:
        config: see `RecurrentConfig`.
    """

    def __init__(self, config: RecurrentConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.source_vocabulary, config.embedding_width)
        self.dropout = nn.Dropout(config.dropout)
        self.gru = nn.GRU(config.embedding_width, config.width // 2, batch_first=True, bidirectional=True)

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Read the source ids (B, S).

        Returns:
            states (B, S, D), zero at padding; summary (B, D), the last state of each
            direction (the backward one ends at the first token); real, bool (B, S),
            True = a real token. A row of nothing but padding has zeros in both.

        Raises:
            ValueError: if ids are out of range, the sentence is empty, or padding stands before a real token.
        """
        require_ids("source", source, self.config.source_vocabulary, like=self)
        real = source != self.config.padding_id
        if source.numel() == 0:
            raise ValueError(f"source must have at least one row and position, got {tuple(source.shape)}")
        if (real[:, 1:] & ~real[:, :-1]).any():
            raise ValueError(
                "padding must come after the last token of the source, got padding before a token"
            )
        # Packing makes the backward direction start at the last token instead of in the padding. It
        # refuses length 0: a row of nothing but padding is read as one token, then set to zero.
        lengths = real.sum(dim=1)
        packed = pack_padded_sequence(
            self.dropout(self.embedding(source)),  # (B, S) -> (B, S, E)
            lengths.clamp(min=1).cpu(),
            batch_first=True,
            enforce_sorted=False,
        )
        states, last = self.gru(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=source.size(1))
        summary = last.transpose(0, 1).flatten(1)  # (2, B, D/2) -> (B, D)
        states = states.masked_fill(~real[..., None], 0.0)
        summary = summary.masked_fill((lengths == 0)[:, None], 0.0)
        return states, summary, real


class RecurrentState:
    """What the decoder carries from token to token; made by `RecurrentTranslator.start`.

    `RecurrentTranslator.step` changes hidden, context and weights; the source
    side stays as it is.

    Attributes:
        hidden:  (B, D), the decoder's state.
        context: (B, D), what it last saw of the source.
        source_states: (B, S, D), the encoder's, which attention mixes.
        source_keys: (B, S, D), the same after the score's `project_keys`, or None without attention.
        source_real: bool (B, S), True = a real token.
        weights: (B, T, S) of the T tokens of the last `step`, or None without attention.
    """

    def __init__(
        self,
        hidden: Tensor,
        context: Tensor,
        source_states: Tensor,
        source_keys: Tensor | None,
        source_real: Tensor,
    ):
        self.hidden, self.context = hidden, context
        self.source_states, self.source_keys, self.source_real = source_states, source_keys, source_real
        self.weights: Tensor | None = None

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may occur several times (beam search)."""
        self.hidden, self.context = self.hidden[rows], self.context[rows]
        self.source_states, self.source_real = self.source_states[rows], self.source_real[rows]
        self.source_keys = None if self.source_keys is None else self.source_keys[rows]
        self.weights = None if self.weights is None else self.weights[rows]


class RecurrentTranslator(nn.Module):
    """Translate ids with recurrent networks; the three kinds differ in what the decoder sees of the source.

    none:           the summary, the same at every step (Cho et al. 2014, §2.2).
    additive:       look with the previous state, then step: c_i from s_{i-1} (Bahdanau et al. 2015, §3.1).
    multiplicative: step, then look with the new state: c_t from h_t, fed to the
                    next step as well (Luong et al. 2015, §3, score "general").

    So that nothing else differs, all three have a bidirectional GRU, a GRU cell
    and a tanh before the output. The papers differ there too: the first two end
    in a maxout layer, the third stacks LSTMs and feeds the vector after its tanh
    to the next step (§3.3) where this one feeds the context.

    The interface is the one of `Transformer`: `forward`, or `start` and `step`.

    Args:
        config: see `RecurrentConfig`.
    """

    max_length: int | None = None  # a recurrent network reads texts of any length

    def __init__(self, config: RecurrentConfig):
        super().__init__()
        self.config = config
        width, embedding_width = config.width, config.embedding_width
        self.encoder = RecurrentEncoder(config)
        self.embedding = nn.Embedding(config.target_vocabulary, embedding_width)
        self.bridge = nn.Linear(width, width)  # from the encoder's last states to the decoder's first
        self.cell = nn.GRUCell(embedding_width + width, width)  # reads a token and the context
        self.score = None
        if config.attention == "additive":
            self.score = AdditiveScore(width, width, width)
        elif config.attention == "multiplicative":
            self.score = GeneralScore(width, width)
        self.combine = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(width, config.target_vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Score every next target id.

        Args:
            source: ids (B, S), padding last.
            target: ids (B, T), shifted right: it starts with the start-of-sentence id.

        Returns:
            logits (B, T, V)

        Raises:
            ValueError: if ids are out of range, or shapes or padding do not fit.
        """
        return self.step(target, self.start(source))

    def start(self, source: Tensor) -> RecurrentState:
        """Encode the source ids (B, S) once, for any number of `step`s; raises what the encoder raises."""
        states, summary, real = self.encoder(source)
        hidden = torch.tanh(self.bridge(summary))
        # "none" keeps the summary and "additive" looks before it needs a context; only
        # "multiplicative" takes its first step before it has seen anything of the source.
        context = torch.zeros_like(summary) if self.config.attention == "multiplicative" else summary
        keys = None if self.score is None else self.score.project_keys(states)
        return RecurrentState(hidden, context, states, keys, real)

    def step(self, target: Tensor, state: RecurrentState, *, last_only: bool = False) -> Tensor:
        """Read the next target ids (B, T), one after the other; the state moves on.

        Args:
            target: ids (B, T), one or several new ones.
            state:  of `start`, or as the last step left it; it is changed.
            last_only: score only what follows the last id.

        Returns:
            logits (B, T, V), with `last_only` (B, 1, V); `state.weights` has the attention weights (B, T, S).

        Raises:
            ValueError: if ids are out of range or the batch differs from the state's.
        """
        require_ids("target", target, self.config.target_vocabulary, like=self)
        require_same_batch("target", target, "source", state.source_states)
        vectors = self.dropout(self.embedding(target))  # (B, T) -> (B, T, E)
        hidden_and_context, weights = [], []
        for vector in vectors.unbind(dim=1):  # (B, E)
            if self.config.attention == "additive":
                state.context, row = self._look(state)
                weights.append(row)
            state.hidden = self.cell(torch.cat([vector, state.context], dim=-1), state.hidden)
            if self.config.attention == "multiplicative":
                state.context, row = self._look(state)
                weights.append(row)
            hidden_and_context.append(torch.cat([state.hidden, state.context], dim=-1))  # (B, 2D)
        hidden_and_context = hidden_and_context[-1:] if last_only else hidden_and_context
        state.weights = torch.stack(weights, dim=1) if weights else None  # T times (B, S) -> (B, T, S)
        if not hidden_and_context:  # no token: torch.stack refuses an empty list
            return self.output.weight.new_zeros(target.size(0), 0, self.config.target_vocabulary)
        # No step reads what `combine` gives (the 2015 input feeding would): so one product serves all steps.
        combined = torch.tanh(self.combine(torch.stack(hidden_and_context, dim=1)))  # (B, T, 2D) -> (B, T, D)
        return self.output(self.dropout(combined))  # (B, T, D) -> (B, T, V)

    def _look(self, state: RecurrentState) -> tuple[Tensor, Tensor]:
        """Return what the hidden state sees of the source: context (B, D) and weights (B, S)."""
        scores = self.score.compare(state.hidden[:, None], state.source_keys)  # query (B, 1, D) -> (B, 1, S)
        context, weights = attend(scores, state.source_states, state.source_real[:, None])
        return context[:, 0], weights[:, 0]  # (B, 1, D) -> (B, D), (B, 1, S) -> (B, S)
