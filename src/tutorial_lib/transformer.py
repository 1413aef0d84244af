"""The whole Transformer of 2017: embeddings, encoder, decoder, output layer (built in chapter 10)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from tutorial_lib.cache import KeyValueCache
from tutorial_lib.embedding import TokenEmbedding
from tutorial_lib.layers import Decoder, Encoder, LayerConfig
from tutorial_lib.masks import causal_mask
from tutorial_lib.positions import positions_from_mask
from tutorial_lib.validation import require_choice, require_ids, require_positive, require_same_batch


@dataclass(frozen=True)
class TransformerConfig:
    """Everything that defines a `Transformer`.

    Attributes:
        source_vocabulary, target_vocabulary: numbers of ids.
        layer: the shape of all layers.
        encoder_layers, decoder_layers: N of either stack.
        padding_id: the id that fills up short source sentences; it is never attended to.
        tie_weights: one matrix for both embeddings and the output layer (§3.4);
            needs one vocabulary for both languages.
        scale_embeddings: multiply embeddings by sqrt(D) (§3.4).
        positions: "sinusoidal" (§3.5), "sinusoidal_halves" (Marian's layout) or "learned".
        max_length: longest sentence with learned positions; the others have no limit.
        output_bias: whether the output layer adds a bias.
        final_norm: as in `Encoder`.
        embedding_std: standard deviation of new embeddings. 0.02 keeps the first
            loss at ln(vocabulary) also with tied weights.

    Raises:
        ValueError: if sizes, names or vocabularies do not fit each other.
    """

    source_vocabulary: int
    target_vocabulary: int
    layer: LayerConfig = field(default_factory=lambda: LayerConfig(512, 8, 2048, dropout=0.1))
    encoder_layers: int = 6
    decoder_layers: int = 6
    padding_id: int = 0
    tie_weights: bool = True
    scale_embeddings: bool = True
    positions: str = "sinusoidal"
    max_length: int = 512
    output_bias: bool = False
    final_norm: bool | None = None
    embedding_std: float = 0.02

    def __post_init__(self) -> None:
        require_positive(
            source_vocabulary=self.source_vocabulary,
            target_vocabulary=self.target_vocabulary,
            max_length=self.max_length,
        )
        require_choice("positions", self.positions, ("sinusoidal", "sinusoidal_halves", "learned"))
        if self.tie_weights and self.source_vocabulary != self.target_vocabulary:
            raise ValueError(
                "tied weights need one vocabulary for both languages, "
                f"got {self.source_vocabulary} and {self.target_vocabulary} ids"
            )
        smaller = min(self.source_vocabulary, self.target_vocabulary)
        if not 0 <= self.padding_id < smaller:
            raise ValueError(f"padding_id must lie between 0 and {smaller - 1}, got {self.padding_id}")

    @classmethod
    def base(cls, vocabulary: int) -> TransformerConfig:
        """The base model of the paper (Vaswani et al. 2017, Table 3)."""
        return cls(vocabulary, vocabulary)

    @classmethod
    def big(cls, vocabulary: int) -> TransformerConfig:
        """The big model of the paper (Vaswani et al. 2017, Table 3)."""
        return cls(vocabulary, vocabulary, LayerConfig(1024, 16, 4096, dropout=0.3))


class TransformerState:
    """What the decoder needs for its next step; made by `Transformer.start`.

    Attributes:
        memory: (B, S, D), the encoded source.
        memory_mask: bool (B, 1, 1, S), its real tokens.
        caches: for each layer the caches of its self- and its cross-attention.
    """

    def __init__(self, memory: Tensor, memory_mask: Tensor, layers: int):
        self.memory, self.memory_mask = memory, memory_mask
        self.caches = [(KeyValueCache(), KeyValueCache()) for _ in range(layers)]

    @property
    def length(self) -> int:
        """Number of target tokens that the decoder has seen."""
        return self.caches[0][0].length

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may occur several times (beam search)."""
        self.memory, self.memory_mask = self.memory[rows], self.memory_mask[rows]
        for own, cross in self.caches:
            own.select(rows)
            cross.select(rows)


class Transformer(nn.Module):
    """Translate ids into scores for the next ids (Vaswani et al. 2017, Figure 1).

    Training sees the whole target at once; decoding goes step by step with
    `start` and `step`. Both use the same masks and give the same numbers.
    Padding may stand anywhere in the source; in the target it follows the last token.

    Args:
        config: see `TransformerConfig`.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        width = config.layer.width
        self.source_embedding = self._embedding(config.source_vocabulary)
        self.target_embedding = self._embedding(config.target_vocabulary)
        self.encoder = Encoder(config.layer, config.encoder_layers, final_norm=config.final_norm)
        self.decoder = Decoder(config.layer, config.decoder_layers, final_norm=config.final_norm)
        self.output = nn.Linear(width, config.target_vocabulary, bias=config.output_bias)
        self._initialise()
        if config.tie_weights:  # three names, one parameter
            self.target_embedding.tokens.weight = self.source_embedding.tokens.weight
            self.output.weight = self.source_embedding.tokens.weight

    @property
    def max_length(self) -> int | None:
        """The most target ids that the model reads, or None for no limit."""
        return self.config.max_length if self.config.positions == "learned" else None

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Score every next target id, all positions at once.

        Args:
            source: ids (B, S)
            target: ids (B, T), shifted right: it starts with the start-of-sentence id.

        Returns:
            logits (B, T, V); row t has seen target ids 0 to t.

        Raises:
            ValueError: if ids are out of range or shapes do not fit.
        """
        return self.step(target, self.start(source))

    def start(self, source: Tensor) -> TransformerState:
        """Encode the source ids (B, S) once, for any number of `step`s."""
        require_ids("source", source, self.config.source_vocabulary, like=self)
        real = source != self.config.padding_id  # (B, S)
        memory_mask = real[:, None, None, :]  # (B, 1, 1, S)
        memory = self.encoder(self.source_embedding(source, positions_from_mask(real)), memory_mask)
        return TransformerState(memory, memory_mask, self.config.decoder_layers)

    def step(self, target: Tensor, state: TransformerState, *, last_only: bool = False) -> Tensor:
        """Read the next target ids and score what follows each of them; the state moves on.

        Args:
            target: ids (B, T), one or several new ones.
            state:  of `start`, or as the last step left it.
            last_only: score only what follows the last id.

        Returns:
            logits (B, T, V), with `last_only` (B, 1, V).

        Raises:
            ValueError: if ids are out of range or the batch differs from the state's.
        """
        require_ids("target", target, self.config.target_vocabulary, like=self)
        require_same_batch("target", target, "source", state.memory)
        start, new = state.length, target.size(1)
        positions = torch.arange(start, start + new, device=target.device)
        x = self.target_embedding(target, positions)
        # Padding after the target's last token needs no mask: the causal one hides it from every real token.
        # A single new token is the last one: it may attend to everything, and needs none at all.
        mask = None if new == 1 else causal_mask(new, start + new, device=target.device)  # (T, L)
        x = self.decoder(x, state.memory, mask, state.memory_mask, caches=state.caches)
        return self.output(x[:, -1:] if last_only else x)  # (B, T, D) -> (B, T, V)

    def _embedding(self, vocabulary: int) -> TokenEmbedding:
        return TokenEmbedding(
            vocabulary,
            self.config.layer.width,
            positions=self.config.positions,
            max_length=self.config.max_length,
            scale=self.config.layer.width**0.5 if self.config.scale_embeddings else 1.0,
            dropout=self.config.layer.dropout,
        )

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.tokens.weight, std=self.config.embedding_std)
        nn.init.normal_(self.output.weight, std=self.config.embedding_std)
