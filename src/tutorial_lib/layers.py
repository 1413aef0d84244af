"""Encoder and decoder layers, post- and pre-norm, and stacks of them (built in chapter 09)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from tutorial_lib.cache import KeyValueCache
from tutorial_lib.feedforward import ACTIVATIONS, make_feed_forward
from tutorial_lib.multihead import MultiHeadAttention
from tutorial_lib.normalization import make_norm
from tutorial_lib.relative_positions import PositionScheme
from tutorial_lib.validation import (
    require_choice,
    require_like_parameters,
    require_positive,
    require_probability,
    require_vectors,
)


@dataclass(frozen=True)
class LayerConfig:
    """What all layers of a stack have in common.

    Attributes:
        width:  D, the width of the vectors that pass through (d_model).
        heads:  H
        hidden: width inside the feed-forward network (d_ff).
        kv_heads, head_width: as in `MultiHeadAttention`.
        norm:   "post" normalises after each residual sum (2017), "pre" before each sublayer.
        norm_kind: "layer" or "rms".
        norm_eps:  eps of the normalisation.
        feed_forward: "relu", "gelu", "gelu_tanh", "silu" or "swiglu".
        bias:      whether linear maps add a bias.
        dropout:   of each sublayer's output, and inside the feed-forward network.
        attention_dropout: of the attention weights.

    Raises:
        ValueError: if a size, probability or name is impossible.
    """

    width: int
    heads: int
    hidden: int
    kv_heads: int | None = None
    head_width: int | None = None
    norm: str = "post"
    norm_kind: str = "layer"
    norm_eps: float = 1e-5
    feed_forward: str = "relu"
    bias: bool = True
    dropout: float = 0.0
    attention_dropout: float = 0.0

    def __post_init__(self) -> None:
        require_positive(width=self.width, heads=self.heads, hidden=self.hidden)
        require_choice("norm", self.norm, ("post", "pre"))
        require_choice("norm_kind", self.norm_kind, ("layer", "rms"))
        require_choice("feed_forward", self.feed_forward, (*ACTIVATIONS, "swiglu"))
        require_probability("dropout", self.dropout)
        require_probability("attention_dropout", self.attention_dropout)
        if self.norm_eps <= 0:
            raise ValueError(f"norm_eps must be positive, got {self.norm_eps}")

    @property
    def width_per_head(self) -> int:
        """Dh: `head_width`, or D / H if that is left out."""
        return self.width // self.heads if self.head_width is None else self.head_width

    def attention(self, position: PositionScheme | None = None) -> MultiHeadAttention:
        """Return a new attention layer of this shape."""
        return MultiHeadAttention(
            self.width,
            self.heads,
            kv_heads=self.kv_heads,
            head_width=self.head_width,
            bias=self.bias,
            dropout=self.attention_dropout,
            position=position,
        )


class Residual(nn.Module):
    """The frame around every sublayer: normalisation, dropout and the residual sum.

    post: norm(x + dropout(sublayer(x)))   (Vaswani et al. 2017, §3.1)
    pre:  x + dropout(sublayer(norm(x)))   (Xiong et al. 2020, §3)
    """

    def __init__(self, config: LayerConfig):
        super().__init__()
        self.placement = config.norm
        self.norm = make_norm(config.norm_kind, config.width, config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.placement == "post":
            return self.norm(x + self.dropout(sublayer(x)))
        return x + self.dropout(sublayer(self.norm(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network.

    With a causal mask it is the layer of a decoder-only model.

    Args:
        config: the shape of the layer.
        position: a position scheme inside the attention.
    """

    def __init__(self, config: LayerConfig, position: PositionScheme | None = None):
        super().__init__()
        self.config = config
        self.attention = config.attention(position)
        self.feed_forward = make_feed_forward(
            config.feed_forward, config.width, config.hidden, bias=config.bias, dropout=config.dropout
        )
        self.around_attention, self.around_feed_forward = Residual(config), Residual(config)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Map (B, T, D) to (B, T, D); arguments as in `MultiHeadAttention.forward`."""
        _check_x(x, self)
        x = self.around_attention(
            x, lambda h: self.attention(h, mask=mask, positions=positions, cache=cache)[0]
        )
        return self.around_feed_forward(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Self-attention, then attention to the encoder's output, then the feed-forward network.

    The mask is the caller's: give a causal one (`masks.causal_mask`), in
    training, evaluation and decoding alike.

    Args:
        config: the shape of the layer.
    """

    def __init__(self, config: LayerConfig):
        super().__init__()
        self.config = config
        self.self_attention = config.attention()
        self.cross_attention = config.attention()
        self.feed_forward = make_feed_forward(
            config.feed_forward, config.width, config.hidden, bias=config.bias, dropout=config.dropout
        )
        self.around_self, self.around_cross, self.around_feed_forward = (Residual(config) for _ in range(3))

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None,
        memory_mask: Tensor | None = None,
        *,
        cache: tuple[KeyValueCache, KeyValueCache] | None = None,
    ) -> Tensor:
        """Decode with a look at the memory.

        Args:
            x:      (B, T, D), the target side.
            memory: (B, S, D), the encoder's output.
            mask:   for the self-attention, bool, broadcastable to (B, H, T, T); None
                allows everything, the future too, and must be written out.
            memory_mask: for the cross-attention, bool, broadcastable to (B, H, T, S).
            cache:  one cache for each of the two attentions.

        Returns:
            (B, T, D)

        Raises:
            ValueError: if shapes, dtypes, devices or masks do not fit.
        """
        _check_x(x, self)
        own, cross = (None, None) if cache is None else cache
        x = self.around_self(x, lambda h: self.self_attention(h, mask=mask, cache=own)[0])
        x = self.around_cross(x, lambda h: self.cross_attention(h, memory, memory_mask, cache=cross)[0])
        return self.around_feed_forward(x, self.feed_forward)


class Encoder(nn.Module):
    """A stack of encoder layers with the same shape and their own parameters.

    Args:
        config: the shape of every layer.
        layers: how many, N.
        final_norm: normalise the output of the last layer; if left out, only
            pre-norm does, whose residual sum nothing else normalises.
        make_position: makes the position scheme of one layer; called once for each layer.
    """

    def __init__(
        self,
        config: LayerConfig,
        layers: int,
        *,
        final_norm: bool | None = None,
        make_position: Callable[[], PositionScheme] | None = None,
    ):
        super().__init__()
        require_positive(layers=layers)
        self.layers = nn.ModuleList(
            EncoderLayer(config, None if make_position is None else make_position()) for _ in range(layers)
        )
        self.final_norm = _final_norm(config, final_norm)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        caches: list[KeyValueCache] | None = None,
    ) -> Tensor:
        """Map (B, T, D) to (B, T, D); `caches` has one cache for each layer."""
        for layer, cache in zip(self.layers, _one_per_layer(caches, self.layers), strict=True):
            x = layer(x, mask, positions=positions, cache=cache)
        return self.final_norm(x)


class Decoder(nn.Module):
    """A stack of decoder layers; every layer looks at the same memory.

    Args:
        config, layers, final_norm: as in `Encoder`.
    """

    def __init__(self, config: LayerConfig, layers: int, *, final_norm: bool | None = None):
        super().__init__()
        require_positive(layers=layers)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(layers))
        self.final_norm = _final_norm(config, final_norm)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None,
        memory_mask: Tensor | None = None,
        *,
        caches: list[tuple[KeyValueCache, KeyValueCache]] | None = None,
    ) -> Tensor:
        """Map (B, T, D) to (B, T, D); arguments as in `DecoderLayer`, with one pair of caches per layer."""
        for layer, cache in zip(self.layers, _one_per_layer(caches, self.layers), strict=True):
            x = layer(x, memory, mask, memory_mask, cache=cache)
        return self.final_norm(x)


def _final_norm(config: LayerConfig, wanted: bool | None) -> nn.Module:
    wanted = config.norm == "pre" if wanted is None else wanted
    return make_norm(config.norm_kind, config.width, config.norm_eps) if wanted else nn.Identity()


def _one_per_layer(caches: list | None, layers: nn.ModuleList) -> list:
    if caches is None:
        return [None] * len(layers)
    if len(caches) != len(layers):
        raise ValueError(f"each layer needs one cache, got {len(caches)} for {len(layers)} layers")
    return caches


def _check_x(x: Tensor, layer: EncoderLayer | DecoderLayer) -> None:
    require_vectors("x", x, layer.config.width)
    require_like_parameters("x", x, layer.around_feed_forward.norm)  # a leaf: its parameter is found at once
