"""Decoder-only language models, in GPT-2's form and in that of the Llama kind (chapters 12 and 13)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tutorial_lib.cache import KeyValueCache
from tutorial_lib.embedding import TokenEmbedding, check_positions_name
from tutorial_lib.layers import Encoder, LayerConfig
from tutorial_lib.masks import causal_mask, combine_masks, real_tokens
from tutorial_lib.positions import positions_from_mask
from tutorial_lib.relative_positions import SCHEMES, position_scheme_factory
from tutorial_lib.validation import require_ids, require_positive


@dataclass(frozen=True)
class DecoderOnlyConfig:
    """Everything that defines a `DecoderOnly` model.

    Attributes:
        vocabulary: number of ids, V.
        layer:  the shape of all layers.
        layers: how many, N.
        positions: "learned", "sinusoidal", "rotary", "rotary_halves" (the order of
            numbers in Hugging Face's Llama weights), "alibi", "t5", "shaw" or "none".
        max_length: longest text; None for no limit, where positions allow that.
        rotary_base: see `apply_rotary`.
        padding_id: an id that is never attended to, on whichever side it stands; None if there is none.
        tie_weights: one matrix for embedding and output layer.
        init_std: standard deviation of new weights; matrices that write into the
            residual sum get init_std / sqrt(2 N) (Radford et al. 2019, §2.3).

    Raises:
        ValueError: if sizes or names do not fit each other.
    """

    vocabulary: int
    layer: LayerConfig
    layers: int
    positions: str = "learned"
    max_length: int | None = None
    rotary_base: float = 10000.0
    padding_id: int | None = None
    tie_weights: bool = True
    init_std: float = 0.02

    def __post_init__(self) -> None:
        require_positive(vocabulary=self.vocabulary, layers=self.layers)
        check_positions_name(self.positions, self.max_length, (*SCHEMES, "none"))
        if self.padding_id is not None and not 0 <= self.padding_id < self.vocabulary:
            raise ValueError(
                f"padding_id must lie between 0 and {self.vocabulary - 1}, got {self.padding_id}"
            )

    @classmethod
    def gpt2(
        cls,
        vocabulary: int = 50257,
        width: int = 768,
        heads: int = 12,
        layers: int = 12,
        max_length: int = 1024,
        dropout: float = 0.1,
    ) -> DecoderOnlyConfig:
        """GPT-2's form: pre-norm, GELU, learned positions, tied weights (Radford et al. 2019, §2.3)."""
        layer = LayerConfig(
            width,
            heads,
            4 * width,
            norm="pre",
            feed_forward="gelu_tanh",
            dropout=dropout,
            attention_dropout=dropout,
        )
        return cls(vocabulary, layer, layers, "learned", max_length)

    @classmethod
    def llama(
        cls,
        vocabulary: int,
        width: int,
        heads: int,
        kv_heads: int,
        hidden: int,
        layers: int,
        max_length: int | None = None,
        rotary_base: float = 10000.0,
        norm_eps: float = 1e-5,
        tie_weights: bool = False,
    ) -> DecoderOnlyConfig:
        """The Llama kind's form: RMSNorm, SwiGLU, rotary, grouped heads, no bias (Touvron et al. 2023)."""
        layer = LayerConfig(
            width,
            heads,
            hidden,
            kv_heads=kv_heads,
            norm="pre",
            norm_kind="rms",
            norm_eps=norm_eps,
            feed_forward="swiglu",
            bias=False,
        )
        return cls(
            vocabulary, layer, layers, "rotary_halves", max_length, rotary_base, tie_weights=tie_weights
        )


class DecoderOnlyState:
    """What the model has read so far; made by `DecoderOnly.start`.

    Attributes:
        real:   bool (B, L), which of the L tokens so far are real, or None before the first.
        padded: whether any of them is padding.
        caches: one for each layer.
    """

    def __init__(self, layers: int):
        self.real: Tensor | None = None
        self.padded = False
        self.caches = [KeyValueCache() for _ in range(layers)]

    @property
    def length(self) -> int:
        """Number of tokens read, padding included."""
        return 0 if self.real is None else self.real.size(1)

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may occur several times (beam search)."""
        if self.real is not None:
            self.real = self.real[rows]
        for cache in self.caches:
            cache.select(rows)


class DecoderOnly(nn.Module):
    """Score the next token after each token of a text.

    A decoder without an encoder needs no cross-attention: its layer is
    `EncoderLayer` with a causal mask.

    Args:
        config: see `DecoderOnlyConfig`.
    """

    def __init__(self, config: DecoderOnlyConfig):
        super().__init__()
        self.config = config
        layer = config.layer
        self.embedding = TokenEmbedding(
            config.vocabulary,
            layer.width,
            positions=config.positions,
            max_length=config.max_length,
            dropout=layer.dropout,
        )
        make_position = position_scheme_factory(
            config.positions,
            heads=layer.heads,
            head_width=layer.width_per_head,
            causal=True,
            rotary_base=config.rotary_base,
        )
        self.blocks = Encoder(layer, config.layers, make_position=make_position)
        self.output = nn.Linear(layer.width, config.vocabulary, bias=False)
        self._initialise()
        if config.tie_weights:
            self.output.weight = self.embedding.tokens.weight

    @property
    def max_length(self) -> int | None:
        """The most ids that the model reads, or None for no limit."""
        return self.config.max_length

    def forward(self, ids: Tensor) -> Tensor:
        """Score what follows each id of a whole text: ids (B, T) -> logits (B, T, V)."""
        return self.step(ids, self.start())

    def start(self) -> DecoderOnlyState:
        """Return the state before the first token."""
        return DecoderOnlyState(self.config.layers)

    def step(
        self, ids: Tensor, state: DecoderOnlyState, *, real: Tensor | None = None, last_only: bool = False
    ) -> Tensor:
        """Read the next ids and score what follows each of them; the state moves on.

        Args:
            ids:   (B, T), one or several new ones.
            state: of `start`, or as the last step left it.
            real:  bool (B, T), True = a real token; if left out, what differs from padding_id.
            last_only: score only what follows the last id; the output layer is a
                large part of the work.

        Returns:
            logits (B, T, V), row t having seen the ids up to t; with `last_only` (B, 1, V).

        Raises:
            ValueError: if ids are out of range, `real` does not fit, the batch differs from
                the state's, or the text grows past max_length; the message names it.
        """
        require_ids("ids", ids, self.config.vocabulary, like=self)
        if state.real is not None and state.real.size(0) != ids.size(0):
            raise ValueError(
                f"ids and the state must have the same batch size, got {ids.size(0)} and {state.real.size(0)}"
            )
        new, total = ids.size(1), state.length + ids.size(1)
        longest = self.config.max_length
        if longest is not None and total > longest:
            raise ValueError(f"this model reads at most {longest} tokens (max_length), got {total}")
        if real is None:
            real = real_tokens(ids, self.config.padding_id)
        elif real.shape != ids.shape or real.dtype != torch.bool:
            raise ValueError(
                f"real must be bool of the ids' shape {tuple(ids.shape)}, "
                f"got {real.dtype} of {tuple(real.shape)}"
            )
        state.padded = state.padded or not bool(real.all())
        state.real = real if state.real is None else torch.cat([state.real, real], dim=1)  # (B, L)
        # A single new token is the last one: it may attend to everything, and needs no mask.
        mask = None if new == 1 else causal_mask(new, total, device=ids.device)  # (T, L)
        positions = torch.arange(total - new, total, device=ids.device)[None]  # (1, T)
        if state.padded:
            mask = combine_masks(mask, state.real[:, None, None, :])  # -> (B, 1, T, L)
            positions = positions_from_mask(state.real)[:, total - new :]  # (B, T)
        x = self.embedding(ids, positions)
        x = self.blocks(x, mask, positions=positions, caches=state.caches)
        return self.output(x[:, -1:] if last_only else x)  # (B, T, D) -> (B, T, V)

    def _initialise(self) -> None:
        std, depth = self.config.init_std, self.config.layers
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                writes = name.endswith(("output_projection", "contract", "down"))
                nn.init.normal_(module.weight, std=std / (2 * depth) ** 0.5 if writes else std)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.embedding.tokens.weight, std=std)
