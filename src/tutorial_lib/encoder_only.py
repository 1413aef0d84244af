"""Encoder-only models such as BERT: contextual vectors for every token (chapters 08 and 12)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tutorial_lib.embedding import TokenEmbedding, check_positions_name
from tutorial_lib.layers import Encoder, LayerConfig
from tutorial_lib.positions import positions_from_mask
from tutorial_lib.relative_positions import SCHEMES, position_scheme_factory
from tutorial_lib.validation import require_ids, require_positive, require_tensor


@dataclass(frozen=True)
class EncoderOnlyConfig:
    """Everything that defines an `EncoderOnly` model.

    Attributes:
        vocabulary: number of ids, V.
        layer:  the shape of all layers.
        layers: how many, N.
        positions: "learned", "sinusoidal", "rotary", "rotary_halves", "alibi", "t5", "shaw" or "none".
        max_length: longest text; None for no limit, where positions allow that.
        padding_id: an id that is never attended to, on whichever side it stands; None if there is none.
        segments: number of segment vectors (BERT has 2), 0 for none.
        embedding_norm: normalise the sum of the embeddings (BERT does).

    Raises:
        ValueError: if sizes or names do not fit each other.
    """

    vocabulary: int
    layer: LayerConfig
    layers: int
    positions: str = "sinusoidal"
    max_length: int | None = None
    padding_id: int | None = 0
    segments: int = 0
    embedding_norm: bool = False

    def __post_init__(self) -> None:
        require_positive(vocabulary=self.vocabulary, layers=self.layers)
        check_positions_name(self.positions, self.max_length, (*SCHEMES, "none"))
        if self.padding_id is not None and not 0 <= self.padding_id < self.vocabulary:
            raise ValueError(
                f"padding_id must lie between 0 and {self.vocabulary - 1}, got {self.padding_id}"
            )
        if self.segments < 0:
            raise ValueError(f"segments must be 0 or more, got {self.segments}")

    @classmethod
    def bert(
        cls,
        vocabulary: int = 30522,
        width: int = 768,
        heads: int = 12,
        layers: int = 12,
        max_length: int = 512,
        hidden: int | None = None,
        dropout: float = 0.1,
    ) -> EncoderOnlyConfig:
        """BERT's form: post-norm, GELU, learned positions, segments (Devlin et al. 2019, §3)."""
        layer = LayerConfig(
            width,
            heads,
            4 * width if hidden is None else hidden,
            norm="post",
            norm_eps=1e-12,
            feed_forward="gelu",
            dropout=dropout,
            attention_dropout=dropout,
        )
        return cls(vocabulary, layer, layers, "learned", max_length, segments=2, embedding_norm=True)


def mean_pooling(vectors: Tensor, real: Tensor) -> Tensor:
    """Average the vectors of each text's real tokens: one vector for the text.

    Sentence models are trained for this average (Reimers & Gurevych 2019, §3).

    Args:
        vectors: (B, T, D)
        real:    bool (B, T); True = a real token. A text without any gives zeros.

    Returns:
        (B, D)

    Raises:
        ValueError: if shapes or the dtype of `real` do not fit.
    """
    require_tensor("vectors", vectors)
    require_tensor("real", real)
    if vectors.dim() < 2 or real.dtype != torch.bool or real.shape != vectors.shape[:-1]:
        raise ValueError(
            f"real must be bool of shape {tuple(vectors.shape[:-1])}, got {real.dtype} of {tuple(real.shape)}"
        )
    # In fp16 the sum of a long text would pass the largest number, 65504.
    wide = torch.float32 if vectors.dtype in (torch.float16, torch.bfloat16) else vectors.dtype
    total = vectors.masked_fill(~real[..., None], 0).sum(-2, dtype=wide)  # (B, T, D) -> (B, D)
    return (total / real.sum(-1, keepdim=True).clamp(min=1)).to(vectors.dtype)


class EncoderOnly(nn.Module):
    """Give each token a vector that depends on the whole text.

    Args:
        config: see `EncoderOnlyConfig`.
    """

    def __init__(self, config: EncoderOnlyConfig):
        super().__init__()
        self.config = config
        layer = config.layer
        self.embedding = TokenEmbedding(
            config.vocabulary,
            layer.width,
            positions=config.positions,
            max_length=config.max_length,
            segments=config.segments,
            norm_eps=layer.norm_eps if config.embedding_norm else None,
            dropout=layer.dropout,
        )
        make_position = position_scheme_factory(
            config.positions, heads=layer.heads, head_width=layer.width_per_head, causal=False
        )
        self.blocks = Encoder(layer, config.layers, make_position=make_position)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, ids: Tensor, segment_ids: Tensor | None = None) -> Tensor:
        """Encode a text.

        Args:
            ids: (B, T); `padding_id` marks padding.
            segment_ids: (B, T), which part a token belongs to; all 0 if left out.

        Returns:
            (B, T, D); vectors at padding have no meaning.

        Raises:
            ValueError: if ids are out of range, or the text is longer than max_length; the message names it.
        """
        require_ids("ids", ids, self.config.vocabulary, like=self)
        longest = self.config.max_length
        if longest is not None and ids.size(1) > longest:
            raise ValueError(f"this model reads at most {longest} tokens (max_length), got {ids.size(1)}")
        mask, positions = None, torch.arange(ids.size(1), device=ids.device)[None]  # (1, T)
        if self.config.padding_id is not None:
            real = ids != self.config.padding_id
            mask, positions = real[:, None, None, :], positions_from_mask(real)  # (B, 1, 1, T), (B, T)
        x = self.embedding(ids, positions, segment_ids)
        return self.blocks(x, mask, positions=positions)
